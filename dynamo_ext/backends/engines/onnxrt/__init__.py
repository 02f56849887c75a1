"""The engine `onnxrt`."""
