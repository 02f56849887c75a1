"""Rewrites of a graph before any engine sees it."""
