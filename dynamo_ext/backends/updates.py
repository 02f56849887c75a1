"""Graphs that only change tensors where they are, as an optimizer's step does: eager's business.

AOTAutograd gives an engine the step as a function: it computes new weights in memory of its own,
which are copied over the old ones. Eager writes into them. Where each element takes few operations,
moving memory is all there is to it: of ResNet-18's weights, plain gradient descent takes 2 ms in
eager and 8 to 12 in an engine, Adam 21 and 27 (TVM) to 57 (ONNX Runtime), on two cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import torch_private
from dynamo_ext.records import NOTHING

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node

REASON = "It only changes tensors in place, which an engine would compute anew and copy back."
REMEDY = f"{NOTHING}: eager writes into them, and is faster. So does Inductor: -b inductor."

MOST = 8
"""Operations on each element changed that are few; torch's optimizers take 1 to 7."""

_COPIES = ("_to_copy", "clone", "copy", "full", "full_like", "scalar_tensor")


def only_updates(graph: GraphModule, changed: int) -> bool:
    """Whether a graph does no more than change tensors on the CPU, element by element.

    Parameters
    ----------
    graph
        A functional ATen graph whose nodes have ``meta["val"]``; of what it returns, the first
        are the new values of inputs that are changed.
    changed
        How many these are.

    Returns
    -------
    bool
        False where it returns anything else, where sizes are symbols, and where the operations
        on an element are so many that an engine which fuses them would gain.
    """
    results: Any = graph.graph.output_node().args[0]
    if not changed or len(results) != changed:
        return False
    operations = [node for node in graph.graph.nodes if node.op.startswith("call_")]
    values = [node.meta.get("val") for node in (*operations, *results)]
    if any(map(torch_private.is_symbolic, values)) or not all(map(_on_cpu, values)):
        return False
    sizes = [value.numel() for value in values]
    taken = sum(size for size in sizes[: len(operations)] if size > 1)
    return taken <= MOST * sum(sizes[len(operations) :]) and all(map(_elementwise, operations))


def _on_cpu(value: torch.Tensor | None) -> bool:
    return getattr(getattr(value, "device", None), "type", "") == "cpu"


def _elementwise(node: Node) -> bool:
    import torch

    if not torch_private.is_overload(node.target):
        return False
    target: Any = node.target
    return torch.Tag.pointwise in target.tags or target.overloadpacket.__name__ in _COPIES
