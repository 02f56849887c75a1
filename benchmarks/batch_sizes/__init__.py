"""What it costs that a model gets a batch of another size."""
