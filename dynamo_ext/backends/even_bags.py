"""Embedding bags of one size as a gather and a sum, which every engine has.

``nn.EmbeddingBag`` of a matrix of indices is an operator of its own in ATen, over a flat list of
indices and the offsets at which each bag begins. ONNX has a loop in its place, TVM and XLA nothing
that is right. Where the offsets are evenly spaced, all bags are as large, and the operator is
an embedding and a reduction. Of an index that is out of range, embedding's error is raised.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import torch_private
from dynamo_ext.backends.constants import attribute

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import GraphModule, Node

_SUM, _MEAN = 0, 1
"""``mode`` of the operator; 2 is the maximum."""

_PLAIN = {"per_sample_weights": None, "include_last_offset": False, "padding_idx": -1}
"""What a bag must not have been asked for."""


def unpack(graph: GraphModule, takes: Callable[[Node], bool]) -> None:
    """Take evenly sized bags of a graph apart, where an engine gains by it.

    Parameters
    ----------
    graph
        A functional ATen graph, its constants folded, whose nodes have ``meta["val"]``; it is
        changed.
    takes
        Whether the engine takes a node. Where it has bags, or would leave the embedding to eager,
        torch's own kernel is faster.
    """
    import torch

    aten = torch.ops.aten
    bags = (aten._embedding_bag.default, aten._embedding_bag_forward_only.default)  # noqa: SLF001
    changed = False
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and node.target in bags:
            given = torch_private.arguments(node)
            size = _size(graph, node, given)
            if size and not takes(node):
                _replace(graph, node, given, size, takes)
                changed = True
    if changed:
        graph.graph.eliminate_dead_code()
        graph.recompile()


def _size(graph: GraphModule, node: Node, given: dict[str, Any]) -> int:
    """How many indices each bag has; 0 where they differ, or nobody can tell."""
    import torch

    offsets, indices = given["offsets"], given["indices"].meta["val"]
    if (
        any(given[name] != value for name, value in _PLAIN.items())
        or given["mode"] not in (_SUM, _MEAN)
        or any(user.target is not operator.getitem or user.args[1] for user in node.users)
    ):
        return 0
    if offsets.op == "get_attr":
        return _step(attribute(graph, str(offsets.target)).tolist(), indices.shape[0])
    if offsets.target is torch.ops.aten.arange.start_step:
        return _stride(torch_private.arguments(offsets), indices.shape[0])
    return 0


def _step(starts: list[int], total: Any) -> int:
    """The distance of evenly spaced offsets that divide a number of indices; or 0."""
    size = total // len(starts) if starts and isinstance(total, int) else 0
    even = size > 0 and starts == [*range(0, total, size)] and size * len(starts) == total
    return size if even else 0


def _stride(given: dict[str, Any], total: Any) -> int:
    """The same of offsets that are counted up to a symbolic number of indices."""
    from torch.fx import Node

    end, step = given["end"], given["step"]
    end = end.meta["val"] if isinstance(end, Node) else end
    counted = given["start"] == 0 and isinstance(step, int) and step > 0
    even = (
        counted and torch_private.surely(end == total) and torch_private.surely(total % step == 0)
    )
    return step if even else 0


def _replace(
    graph: GraphModule,
    node: Node,
    given: dict[str, Any],
    size: int,
    takes: Callable[[Node], bool],
) -> None:
    import torch

    aten = torch.ops.aten
    reduce = aten.sum.dim_IntList if given["mode"] == _SUM else aten.mean.dim

    def add(target: Any, *args: Any) -> Node:
        made = graph.graph.call_function(target, args)
        values = [each.meta["val"] if isinstance(each, torch.fx.Node) else each for each in args]
        made.meta = {**node.meta, "val": target(*values)}
        return made

    with graph.graph.inserting_before(node):
        rows = add(aten.view.default, given["indices"], [-1, size])
        embedded = add(aten.embedding.default, given["weight"], rows)
        if not takes(embedded):
            graph.graph.erase_node(embedded)
            graph.graph.erase_node(rows)
            return
        result = add(reduce, embedded, [1])
    for user in list(node.users):
        user.replace_all_uses_with(result)
        graph.graph.erase_node(user)
    graph.graph.erase_node(node)
