"""What lower precisions gain on the model zoo, and what they cost."""
