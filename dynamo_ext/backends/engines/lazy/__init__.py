"""The engine `lazy`."""
