"""`python -m tpsrl`."""

from tpsrl.cli import main

main()
