"""The engine `onnx`."""
