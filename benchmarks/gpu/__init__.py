"""What runs on a GPU: the backends that are there, their tests, and comparisons of a few models."""
