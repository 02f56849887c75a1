"""A graph in a lower precision by torch's autocast, its sensitive operations kept out of it."""
