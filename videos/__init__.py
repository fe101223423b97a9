"""Rollouts as videos."""
