"""Cells with loops that break."""
