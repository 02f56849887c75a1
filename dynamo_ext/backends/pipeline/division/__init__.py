"""A captured graph in parts, so that autograd finds its results as it does in eager."""
