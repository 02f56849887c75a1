"""A report, shown."""
