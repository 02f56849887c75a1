"""One operation of a graph, for its drawing and its tables."""

from __future__ import annotations

import re

from dynamo_ext.records.report import Operation

_PARAMETER = re.compile(r"(?:^|_)(?:parameters|buffers)_")


def is_parameter(operation: Operation) -> bool:
    """Whether a node only brings a weight or a buffer in."""
    return operation.opcode == "get_attr" or (
        operation.opcode == "placeholder" and bool(_PARAMETER.search(operation.name))
    )


def computes(operation: Operation) -> bool:
    """Whether it is a call of a function, method or module."""
    return operation.opcode.startswith("call_")


def result(operation: Operation) -> str:
    """Write the result's type as ``float32[8, s0]``; empty where it is not a tensor."""
    shape = "" if operation.shape is None else f"[{', '.join(operation.shape)}]"
    return operation.dtype.removeprefix("torch.") + shape
