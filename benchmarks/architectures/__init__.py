"""Architectures of transformers, made small, through the engines."""
