"""Evaluators: success of scenarios and of single skills, with intervals."""
