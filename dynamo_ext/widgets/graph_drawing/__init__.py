"""A graph's layout, and its drawing."""
