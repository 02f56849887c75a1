"""First and later runs of cells that people write."""
