"""From a captured graph to something faster, or to eager with the reason why not."""
