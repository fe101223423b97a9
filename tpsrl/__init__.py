"""The command line and nothing else: parses, composes a config, calls one function of another room."""

__version__ = "0.1.0"
