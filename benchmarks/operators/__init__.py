"""Torch's own operator samples through every engine."""
