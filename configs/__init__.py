"""Hydra configurations, as package data."""
