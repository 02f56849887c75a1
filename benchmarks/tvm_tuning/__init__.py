"""TVM by rule beside TVM tuned."""
