"""The engine `cudagraphs`."""
