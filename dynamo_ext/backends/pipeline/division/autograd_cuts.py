"""Where a captured graph is cut, so that autograd finds its results as it does in eager.

A graph that AOTAutograd compiled is one node of autograd. Autograd has neither a gradient of one of
its results with respect to another nor a place for a hook between the two, and after a backward
pass from one it cannot make one from another. A cell's names are results. So the graph is cut in
front of the first operation that autograd records of a result, once nothing changes that result any
more, and where nothing that follows belongs to the results before::

    h = x @ w           # the cell binds h, and what follows reads it
    # cut
    t = h * 2           # the cell binds t again, so this one is not a result
    a = t.tanh()        # a is one, which nothing reads
    # cut
    b = v.exp().sum()   # b is another
"""

import itertools
from collections.abc import Collection, Iterator, Sequence
from operator import or_

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
    recorded = _recorded(nodes)
    ready, changed = _when_ready(graph, recorded)
    leads = _leads_to(graph, ready)
    # What leads to no result is computed, and autograd is not asked about it.
    recorded = {node for node in recorded if leads[node]}
    # The results that the operations from each on lead to.
    ahead = list(itertools.accumulate((leads[n] for n in reversed(nodes) if n in recorded), or_))
    found: list[Node] = []
    start, uncut, last, behind = 0, 0, -1, 0
    for place, (node, inside) in enumerate(zip(nodes, _contexts(nodes), strict=True)):
        uncut = place if not inside else uncut
        if node not in recorded:
            continue
        following = ahead.pop()
        values = [value for given in node.all_input_nodes for value in tensors(given)]
        places = [ready.get(id(value), -1) for value in values]
        places += [changed.get(dispatch.memory_of(value), -1) for value in values]
        latest = max((each for each in places if each < place), default=-1)
        reads = latest >= start
        if reads and uncut <= latest:
            raise StayEager(_INSEPARABLE, _REMEDY)
        if reads or (behind and not behind & following and uncut > last):
            found.append(nodes[uncut])
            start, behind = uncut, 0
        behind |= leads[node]
        last = place
    return found


def _recorded(nodes: Sequence[Node]) -> set[Node]:
    """The operations that autograd records: a result, or what they write to, has a gradient."""
    grad = torch.is_grad_enabled()
    found: set[Node] = set()
    for node in nodes:
        if getattr(node.target, "__name__", "") == "_set_grad_enabled":
            grad = bool(node.args[0])
        values = (*tensors(node), *tensors(written(node)))
        if grad and node.op.startswith("call_") and not picks(node):
            found.update({node} if any(value.requires_grad for value in values) else ())
    return found


def _leads_to(graph: GraphModule, ready: Collection[int]) -> dict[Node, int]:
    """The results that each operation leads to, as bits, without those behind other results."""
    bits = {key: 1 << number for number, key in enumerate(ready)}
    leads: dict[Node, int] = dict.fromkeys(graph.graph.nodes, 0)
    written_to: dict[int | None, int] = {}
    for node in reversed(graph.graph.nodes):
        if node.op == "output":
            continue
        own = sum({bits[id(value)] for value in tensors(node) if id(value) in bits})
        for value in tensors(written(node)):
            leads[node] |= bits.get(id(value), 0) | written_to.get(dispatch.memory_of(value), 0)
        leads[node] = own or leads[node]
        for given in node.all_input_nodes:
            leads[given] |= leads[node]
            for value in tensors(given):
                memory = dispatch.memory_of(value)
                written_to[memory] = written_to.get(memory, 0) | leads[node]
    return leads


def _when_ready(
    graph: GraphModule, recorded: Collection[Node]
) -> tuple[dict[int, int], dict[int | None, int]]:
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
        # Without a record, a change leaves a tensor the same to autograd.
        for value in tensors(written(node)) if node in recorded else ():
            changed[dispatch.memory_of(value)] = place
    changed = {each: place for each, place in changed.items() if each and each in callers.values()}
    return {each: max(begun[each], changed.get(callers[each], -1)) for each in callers}, changed


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
