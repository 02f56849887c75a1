"""Markup and styles."""
