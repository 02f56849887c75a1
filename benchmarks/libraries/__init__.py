"""Small models of libraries that build on torch, through the engines."""
