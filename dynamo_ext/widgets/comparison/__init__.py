"""A comparison, shown."""
