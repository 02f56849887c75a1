"""The user's code: its blocks, lines and syntax, and what its names lead to."""
