"""What engines ask before they accept an operation."""
