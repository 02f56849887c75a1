"""Conversions of operations."""
