"""What a call of a compiled graph passes through: the graph, its partitions, their engines."""
