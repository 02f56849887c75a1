"""One operation of a graph, for its drawing and its tables."""

import re
from collections.abc import Sequence
from itertools import takewhile

from dynamo_ext.records.graph import Operation

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


def modules_of(operations: Sequence[Operation]) -> str:
    """Name what operations are of: ``net``, or ``net.layers.0 to net.layers.3``; or nothing."""
    stacks = [op.modules for op in operations if computes(op) and op.modules]
    levels = zip(*stacks, strict=False)
    shared = [level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels)]
    depth = len(shared)
    below = list(dict.fromkeys(stack[depth][0] for stack in stacks if len(stack) > depth))
    return f"{below[0]} to {below[-1]}" if len(below) > 1 else shared[-1][0] if shared else ""
