"""The engine `eager`."""
