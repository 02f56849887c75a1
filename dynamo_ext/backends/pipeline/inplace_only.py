"""Graphs that only change tensors in place, as an optimizer's step does: eager runs them.

AOTAutograd gives an engine the step as a function: it computes new weights in memory of its own,
which are copied over the old ones. Eager writes into them. Where each element takes few operations,
moving memory is all there is to it: of ResNet-18's weights, plain gradient descent takes 2 ms in
eager and 8 to 12 in an engine, Adam 21 and 27 (TVM) to 57 (ONNX Runtime), on two cores.
"""

from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.torch_private import dispatch, fx_nodes

REASON = "It only changes tensors in place, which an engine would compute again and copy back."
REMEDY = (
    "Nothing needs to be done: eager writes into them, and is faster. Inductor writes into them, "
    "too: -b inductor."
)

MOST = 8
"""Operations on each element changed that are few; torch's optimizers take 1 to 7."""

_COPIES = ("_to_copy", "clone", "copy", "full", "full_like", "scalar_tensor")


def only_updates(graph: GraphModule, changed: int) -> bool:
    """Whether a functional graph does no more than change tensors on the CPU, by element.

    Its first ``changed`` results are the new values of inputs. It is not where it returns anything
    else, where sizes are symbols, or where an engine would gain by fusing many operations.
    """
    results: Any = graph.graph.output_node().args[0]
    if not changed or len(results) != changed:
        return False
    operations = [node for node in graph.graph.nodes if node.op.startswith("call_")]
    values = [node.meta.get("val") for node in (*operations, *results)]
    on_cpu = all(getattr(value, "is_cpu", False) for value in values)
    if not on_cpu or any(map(dispatch.is_symbolic, values)):
        return False
    sizes = [value.numel() for value in values]
    taken = sum(size for size in sizes[: len(operations)] if size > 1)
    return taken <= MOST * sum(sizes[len(operations) :]) and all(map(_elementwise, operations))


def _elementwise(node: Node) -> bool:
    if not fx_nodes.is_overload(node.target):
        return False
    target: Any = node.target
    return torch.Tag.pointwise in target.tags or target.overloadpacket.__name__ in _COPIES
