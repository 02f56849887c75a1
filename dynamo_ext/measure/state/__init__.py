"""What a measurement puts back: tensors, random state, settings."""
