"""A graph in a lower precision by torch's autocast."""
