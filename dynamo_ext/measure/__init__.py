"""Fair measurement of several backends on the same code; knows nothing of how it is shown."""
