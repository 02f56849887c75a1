"""From what was recorded to a report."""
