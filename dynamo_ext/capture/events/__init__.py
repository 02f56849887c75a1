"""Graphs, guards, breaks and recompiles as records, read from Dynamo's objects and texts."""
