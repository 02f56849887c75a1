"""Clocks, races and their statistics."""
