"""The engine `callable`."""
