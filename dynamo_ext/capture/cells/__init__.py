"""A cell's text as functions, and running them."""
