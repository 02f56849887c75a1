"""The engine `tensorrt`."""
