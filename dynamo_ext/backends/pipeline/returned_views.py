"""Views that a graph returns and that eager makes, never an engine.

Views of the caller's other tensors: AOTAutograd gives such a result back as a view of the input, or
of the other result, and reads size, strides and offset off what the graph returned. An engine's
result has memory, and an offset, of its own: ``x[i : i + 16]`` would come back as ``x[0:16]`` for
every ``i``.

Views whose elements share memory (``expand``, ``unfold``): an engine's result has memory for each
element, so that a write to one would not be seen in the others.
"""

from collections import Counter
from collections.abc import Collection
from typing import Any

import torch
from torch.fx import GraphModule, Node, map_arg

from dynamo_ext.backends.fx_graph import view_chain

_MARK = "dynamo_ext_returned_view"


def separate_returned_views(graph: GraphModule) -> int:
    """Give each returned view operations of its own, in place; how many such results there are.

    ``is_returned_view`` is true for these operations. What is computed from a view stays as it is.
    """
    output = graph.graph.output_node()
    returned = dict.fromkeys(output.all_input_nodes)
    copies: dict[Node, Node] = {}
    views = _made_by_eager(returned)
    for chain in views.values():
        for node in reversed(chain):
            if node not in copies:
                with graph.graph.inserting_before(output):
                    copies[node] = graph.graph.node_copy(node, lambda n: copies.get(n, n))
                copies[node].meta[_MARK] = True
    by = {node: copies[node] for node in views}
    output.args = map_arg(output.args, lambda node: by.get(node, node))
    for chain in views.values():
        for node in chain:
            if not node.users and not node.meta.get(_MARK) and node in graph.graph.nodes:
                graph.graph.erase_node(node)
    if views:
        graph.recompile()
    return len(views)


def _made_by_eager(returned: Collection[Node]) -> dict[Node, list[Node]]:
    """The results that eager makes, with the operations for each, last first."""
    chains = {node: chain for node in returned if (chain := view_chain(node))}
    roots = Counter(chain[-1].args[0] for chain in chains.values())
    views = {}
    for node, chain in chains.items():
        root = chain[-1].args[0]
        given = getattr(root, "op", "") == "placeholder"
        shared = given or root in returned or roots[root] > 1
        # Else from the first view on whose elements may share memory.
        places = [place for place, each in enumerate(chain, 1) if _may_overlap(each)]
        if made := chain if shared else chain[: max(places, default=0)]:
            views[node] = made
    return views


def is_returned_view(node: Node) -> bool:
    """Whether a node makes a view for the caller, and nothing else."""
    return bool(node.meta.get(_MARK))


def _may_overlap(node: Node) -> bool:
    aten = torch.ops.aten
    if node.target in (aten.unfold.default, aten.as_strided.default):
        return True
    value: Any = node.meta.get("val")
    # A size of one that is not symbolic makes nothing overlap.
    return node.target is aten.expand.default and any(
        isinstance(stride, int) and stride == 0 and not (isinstance(size, int) and size <= 1)
        for size, stride in zip(value.shape, value.stride(), strict=True)
    )
