"""A report in, sentences out: causes, advice, and what changed between runs."""
