"""Candidates in other processes."""
