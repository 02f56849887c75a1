"""Plain data: what happened in a run, without torch and without tensors."""
