"""The engine `onnx2tf`."""
