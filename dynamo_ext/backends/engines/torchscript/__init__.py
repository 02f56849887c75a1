"""The engine `torchscript`."""
