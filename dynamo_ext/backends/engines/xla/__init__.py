"""The engine `xla`."""
