"""What Python code calls: optimize, run, compare, explain."""
