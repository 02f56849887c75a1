"""Private interfaces of torch that compiling a graph needs."""
