"""Results that are views of the caller's other tensors, kept out of the graph that is compiled.

AOTAutograd returns a view of an input by reading size, strides and offset off what the compiled
graph returned, at times (2.13.0) in memory that begins elsewhere: where sizes are symbols and the
input is changed in place, its offset is lost, and where inputs overlap, the view is taken of both.
So the compiler gets the graph without such results, and each call makes them by the captured
operations themselves: of that call's inputs and results, as eager does. Of a graph::

    def forward(x):
        y = x.sin()
        return x.t(), y, y[0]

the compiler gets ``return (y,)``, and a call returns ``x.t(), y, y[0]`` of what it was given and of
what that returned.
"""

import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from dynamo_ext.backends import effects
from dynamo_ext.backends.fx_graph import own_copy
from dynamo_ext.backends.passes.unused_draws import drawn
from dynamo_ext.torch_private import dispatch, fx_nodes

_MODES = frozenset({"_set_grad_enabled", "_enter_inference_mode", "_exit_inference_mode"})
"""What decides whether autograd knows of the views made after it."""

_TOLD = frozenset({"size", "shape", "stride", "dim", "ndim", "numel", "storage_offset"})
"""Attributes of a tensor that do not depend on its elements."""


def apart(
    graph: GraphModule, compile_rest: Callable[[GraphModule], Callable[..., Any]]
) -> Callable[..., Any]:
    """Compile a captured graph but for the views that it returns of the caller's other tensors.

    ``compile_rest`` gets a graph with the same inputs and without such results. Of views that only
    share memory with each other, that graph returns what they are views of. Where there are only
    views to make, the graph's own ``forward`` is returned.
    """
    views = _Views(graph)
    if not views.results:
        return drawn(graph, compile_rest)
    rest = views.rest()
    if not any(node.op.startswith("call_") for node in rest.graph.nodes):
        return graph.forward
    compiled = drawn(rest, compile_rest)
    finish, positions = views.finish()

    def call(*args: Any) -> Any:
        results = compiled(*args)
        return finish(*[args[position] for position in positions], *results)

    return call


class _Views:
    """Which results of a graph are views for the caller, and what each is made of."""

    def __init__(self, graph: GraphModule) -> None:
        self._graph = graph
        output: Any = graph.graph.output_node()
        self._returned: Any = output.args[0]
        self.results: set[Node] = set()
        self._inputs: set[Node] = set()
        self._made: set[Node] = set()
        # Dynamo's graphs return a tuple; other graphs may return one value.
        one = not isinstance(self._returned, (tuple, list))
        if one or any(map(fx_nodes.changes_geometry, graph.graph.nodes)):
            return
        nodes = [each for each in dict.fromkeys(self._returned) if hasattr(each, "op")]
        roots = {node: root_of(node) for node in nodes}
        shared = Counter(roots.values())
        self.results = {
            node
            for node, root in roots.items()
            if root.op in ("placeholder", "get_attr")
            or (node is not root and (root in roots or shared[root] > 1))
        }
        # What the rest of the graph returns.
        self._asked = dict.fromkeys(node for node in nodes if node not in self.results)
        self._plan()

    def _plan(self) -> None:
        """Find what makes the views, down to inputs and to what the rest must return for them."""
        waiting = list(self.results)
        while waiting:
            node = waiting.pop()
            same = same_as(node)
            if node.op == "placeholder":
                self._inputs.add(node)
            elif same is not None:
                waiting.append(same)
            elif node.op == "get_attr" or _viewed(node) is not None or _is_size(node):
                self._made.add(node)
                waiting += node.all_input_nodes
            else:
                self._asked[node] = None

    def rest(self) -> GraphModule:
        """The graph without its views."""
        rest = own_copy(self._graph)
        twins = dict(zip(self._graph.graph.nodes, rest.graph.nodes, strict=True))
        rest.graph.output_node().args = (tuple(twins[node] for node in self._asked),)
        for node in reversed(self._graph.graph.nodes):
            if node in self._made and not twins[node].users:
                rest.graph.erase_node(twins[node])
        rest.recompile()
        return rest

    def finish(self) -> tuple[Callable[..., Any], list[int]]:
        """What takes some inputs of the graph and the rest's results, and gives all results.

        And the positions of these inputs.
        """
        old, made = self._graph.graph, Graph()
        inputs = enumerate(old.find_nodes(op="placeholder"))
        taken = {node: position for position, node in inputs if node in self._inputs}
        nodes = {node: made.placeholder(node.name) for node in (*taken, *self._asked)}
        modes = {node for node in old.nodes if getattr(node.target, "__name__", "") in _MODES}
        if modes:
            # The rest has set them for what comes behind the graph.
            made.call_function(torch.set_grad_enabled, (torch.is_grad_enabled(),))
        for node in old.nodes:
            if node in self._made or node in modes:
                nodes[node] = made.node_copy(node, nodes.__getitem__)
            elif node not in nodes and (same := same_as(node)) in nodes:
                nodes[node] = nodes[same]
        made.output(tuple(nodes.get(each, each) for each in self._returned))
        return GraphModule(self._graph, made).forward, list(taken.values())


def root_of(node: Node) -> Node:
    """What a node's result is, or is a view of, in the end."""
    while (source := same_as(node) or _viewed(node)) is not None:
        node = source
    return node


def same_as(node: Node) -> Node | None:
    """The argument that an operation gives back itself, changed or not."""
    value = value_of(node)
    if node.op == "placeholder" or not dispatch.is_fake(value):
        return None
    source: Any = node.args[0] if picks(node) else node
    return next((given for given in source.all_input_nodes if value_of(given) is value), None)


def _viewed(node: Node) -> Node | None:
    """The argument that an operation gives a view of: what changes one gives it back itself."""
    if not node.op.startswith("call_") or fx_nodes.is_higher_order(node.target):
        return None
    if picks(node):
        source: Any = node.args[0]
        return source if _viewed(source) else None
    made = value_of(node)
    for given in node.all_input_nodes:
        for each in made if isinstance(made, (tuple, list)) else (made,):
            if dispatch.share_memory(each, value_of(given)):
                return given
    return None


def written(node: Node) -> Node | None:
    """What a node writes to: what it gives back, or the first of what it is given."""
    if not effects.of_node(node).changes:
        return None
    return same_as(node) or next(iter(node.all_input_nodes), None)


def picks(node: Node) -> bool:
    """Whether a node takes one of several results."""
    if node.target is not operator.getitem:
        return False
    source: Any = node.args[0]
    return isinstance(value_of(source), (tuple, list)) and source.op.startswith("call_")


def _is_size(node: Node) -> bool:
    """Whether a node tells sizes, or computes with them, and looks at no element of a tensor."""
    if not isinstance(value_of(node), (int, torch.SymInt, torch.Size)):
        return False
    name = getattr(node.target, "__name__", node.target)
    told = name in _TOLD or (name == "getattr" and node.args[1] in _TOLD)
    return told or not any(dispatch.is_fake(value_of(each)) for each in node.all_input_nodes)


def value_of(node: Node) -> Any:
    """What Dynamo saw a node give: a fake tensor, a number, several of these, or nothing."""
    return node.meta.get("example_value")
