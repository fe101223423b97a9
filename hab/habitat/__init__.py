"""Habitat: our apartments in its formats (`export`); habitat-sim and habitat-lab themselves are optional."""
