"""Where a captured graph is cut, so that autograd finds each result that another is computed from.

A graph that AOTAutograd compiled is one node of autograd: there is no gradient of one of its
results with respect to another, and no place for a hook between the two. A cell's names are
results. So the graph is cut in front of the first operation that autograd records of a result, once
nothing changes that result any more::

    h = x @ w           # what follows reads h, which the cell binds
    # cut
    t = h * 2           # t is no result
    a = t.tanh()        # a is one
    # cut
    loss = a.sum()
"""

from collections.abc import Iterator, Sequence

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.base import StayEager
from dynamo_ext.backends.pipeline.input_views import picks, value_of, written
from dynamo_ext.torch_private import dispatch

_INSEPARABLE = (
    "One result of the graph is computed from another within a context in which a graph cannot be "
    "divided (a transform of torch.func, a choice of attention's kernels). Autograd has to find "
    "the first one."
)
_REMEDY = "--opt divide=false compiles it whole, and autograd does not find the first one."

_BEGINS = ("_enter_inference_mode", "_enter_dual_level", "_saved_tensors_hooks_disable")
_ENDS = ("_exit_inference_mode", "_exit_dual_level", "_saved_tensors_hooks_enable")
_SWITCHES = "_sdpa_kernel"


def cuts(graph: GraphModule) -> list[Node]:
    """The nodes in front of which a captured graph is to be cut; none where autograd finds all.

    Raises ``StayEager`` where it would have to be cut in the middle of a context.
    """
    nodes = list(graph.graph.nodes)
    ready, changed = _when_ready(graph)
    found: list[Node] = []
    start, uncut, grad = 0, 0, torch.is_grad_enabled()
    for place, (node, inside) in enumerate(zip(nodes, _contexts(nodes), strict=True)):
        if not inside:
            uncut = place
        if getattr(node.target, "__name__", "") == "_set_grad_enabled":
            grad = bool(node.args[0])
        if not grad or picks(node) or not _is_recorded(node):
            continue
        places = [-1]
        for value in (value for given in node.all_input_nodes for value in tensors(given)):
            places.append(ready.get(id(value), -1))
            places.append(changed.get(dispatch.memory_of(value), -1))
        latest = max(each for each in places if each < place)
        if latest >= start:
            if uncut <= latest:
                raise StayEager(_INSEPARABLE, _REMEDY)
            found.append(nodes[uncut])
            start = uncut
    return found


def _when_ready(graph: GraphModule) -> tuple[dict[int, int], dict[int | None, int]]:
    """Behind which place the caller's tensors, and memory that changes, no longer change.

    By the identity of fake tensors, and by their memory.
    """
    output = graph.graph.output_node()
    begun: dict[int, int] = {}
    changed: dict[int | None, int] = {}
    callers: dict[int, int | None] = {}
    for place, node in enumerate(graph.graph.nodes):
        given = node.op == "placeholder"
        for value in tensors(node):
            begun.setdefault(id(value), -1 if given else place)
            if value.requires_grad and (given or output in node.users):
                callers[id(value)] = dispatch.memory_of(value)
        for value in tensors(written(node)):
            changed[dispatch.memory_of(value)] = place
    changed = {each: place for each, place in changed.items() if each and each in callers.values()}
    return {each: max(begun[each], changed.get(callers[each], -1)) for each in callers}, changed


def _is_recorded(node: Node) -> bool:
    """Whether autograd records an operation: its result, or what it writes to, has a gradient."""
    values = (*tensors(node), *tensors(written(node)))
    return node.op.startswith("call_") and any(value.requires_grad for value in values)


def tensors(node: Node | None) -> Iterator[torch.Tensor]:
    """The fake tensors that a node gave while Dynamo traced it."""
    value = None if node is None else value_of(node)
    for each in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(each, torch.Tensor):
            yield each


def _contexts(nodes: Sequence[Node]) -> Iterator[int]:
    """In how many contexts that no cut may go through each node is, before it runs."""
    depth = switched = 0
    for node in nodes:
        yield depth + switched
        name = str(getattr(node.target, "__name__", ""))
        depth += name.endswith("_increment_nesting") or name in _BEGINS
        depth -= name.endswith("_decrement_nesting") or name in _ENDS
        switched = 1 - switched if name == _SWITCHES else switched
