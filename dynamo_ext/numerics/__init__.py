"""Tolerances, higher precision and random state."""
