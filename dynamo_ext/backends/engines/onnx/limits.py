"""What torch's ONNX exporter must not be given, whichever engine is behind it."""

from torch.fx import Node

from dynamo_ext.backends.support.single_op import operator_name, tensor_inputs


def truncated(node: Node) -> str:
    """Whether torch.onnx makes an integer of a number that is none; for engines behind it."""
    scalar = operator_name(node.target).endswith(".Scalar")
    floats = any(isinstance(argument, float) for argument in node.args)
    if scalar and floats and integral_input(node):
        return "torch.onnx takes the number for an integer, as the tensor's are."
    return ""


def integral_input(node: Node) -> bool:
    """Whether an operation's first tensor holds integers or truths."""
    return not input_dtype(node).startswith(("float", "bfloat", "complex"))


def input_dtype(node: Node) -> str:
    """The dtype of a node's first tensor (``float32``)."""
    kinds = (str(source.meta["val"].dtype) for source in tensor_inputs(node))
    return next(kinds, "").removeprefix("torch.")
