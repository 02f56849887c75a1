"""The engine `tvm`."""
