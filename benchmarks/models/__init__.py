"""The model zoo through every engine: right, and how much of it."""
