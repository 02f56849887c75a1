"""What Dynamo tells of a graph, a guard, a break or a recompile, as a record."""
