"""The engine `openvino`."""
