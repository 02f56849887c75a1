"""The engine `nvfuser`."""
