"""`auto` beside every backend alone, over the model zoo."""
