"""FX graphs: copies of them, and what their nodes and attributes are."""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node, Proxy, map_arg
from torch.fx.proxy import GraphAppendingTracer

from dynamo_ext.torch_private import fx_nodes

FROZEN = "frozen_"
"""How the names begin of weights that were made constants."""


def duplicate(graph: GraphModule) -> GraphModule:
    """A graph module of its own, tensors shared and every ``meta`` copied one level deep."""
    return GraphModule(graph, copied(graph))


def copied(graph: GraphModule) -> Graph:
    """The nodes of a graph module, every ``meta`` copied one level deep."""
    nodes = Graph()
    nodes.output(nodes.graph_copy(graph.graph, {}))
    return nodes


class WithoutCode(GraphModule):
    """A graph module whose Python code is written where it first runs, or by ``write_code``."""

    def recompile(self) -> Any:
        """Write nothing: most of what an engine is made of never runs in Python."""

    def forward(self, *args: Any) -> Any:
        """Run it."""
        self.write_code()
        return self.forward(*args)

    def write_code(self) -> None:
        """Write the code, so that ``forward`` is this code alone."""
        super().recompile()

    @property
    def code(self) -> str:
        """The code."""
        self.write_code()
        return super().code


def own_copy(graph: GraphModule) -> GraphModule:
    """A captured graph that a backend may rewrite: parameters shared, nodes its own."""
    made = duplicate(graph)
    for old, new in zip(graph.graph.nodes, made.graph.nodes, strict=True):
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source  # noqa: SLF001 - Dynamo's own mark on its placeholders
    give_facts(graph, made)
    return made


def give_facts(graph: GraphModule, made: GraphModule) -> None:
    """Give a graph module what Dynamo has set on another beside its modules, and its ``meta``."""
    made.meta = dict(graph.meta)
    for name, value in vars(graph).items():
        if name not in vars(made):
            setattr(made, name, value)


def named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, with a name under which a graph may call it: FX writes its name and module."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = "dynamo_ext.parts"
    return function


def attribute(graph: GraphModule, target: str) -> Any:
    """What a ``get_attr`` node of a graph names by its ``target``."""
    return functools.reduce(getattr, target.split("."), graph)


def replace(node: Node, function: Callable[..., Any]) -> None:
    """Put what a function makes of a call's arguments in its place, or in that of its first result.

    The function gets nodes as ``torch.fx.Proxy``, and what it does with them is written down.
    """
    tracer = GraphAppendingTracer(node.graph)
    stand_in: Any = functools.partial(Proxy, tracer=tracer)
    given: Any = map_arg((node.args, node.kwargs), stand_in)
    with node.graph.inserting_before(node):
        made: Any = function(*given[0], **given[1])
    several = isinstance(node.meta.get("val"), (tuple, list))
    for reader in list(node.users) if several else [node]:
        made.node.meta = dict(reader.meta)
        reader.replace_all_uses_with(made.node)
        node.graph.erase_node(reader)
    if several:
        node.graph.erase_node(node)


def hold(graph: GraphModule, name: str, value: torch.Tensor, node: Node) -> None:
    """Have what reads a node's result read a constant, which the graph holds under a name."""
    graph.register_buffer(name, value)
    with graph.graph.inserting_before(node):
        held = graph.graph.get_attr(name)
    held.meta = dict(node.meta)
    node.replace_all_uses_with(held)


def is_frozen(node: Node) -> bool:
    """Whether a node is a weight that was made a constant (``freeze.frozen``)."""
    return node.op == "get_attr" and str(node.target).startswith(FROZEN)


def held_tensors(graph: GraphModule) -> list[torch.Tensor]:
    """The tensors that a captured graph reads without being given them: its attributes."""
    found: dict[int, torch.Tensor] = {}
    for module in graph.modules():
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        values = [*own, *vars(module).values()]
        found.update((id(v), v) for v in values if isinstance(v, torch.Tensor))
    return list(found.values())


def may_differentiate(inputs: Sequence[Any]) -> bool:
    """Whether a backward pass may follow a call of a graph with such inputs."""
    tensors = (value for value in inputs if isinstance(value, torch.Tensor))
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def view_chain(node: Node) -> list[Node]:
    """A node and what it is a view of, as long as that is a view, too."""
    chain = []
    while is_view(node):
        chain.append(node)
        source: Any = node.args[0]
        node = source
    return chain


def root_of_views(node: Node) -> Any:
    """What a node is a view of in the end, or the node."""
    chain = view_chain(node)
    return chain[-1].args[0] if chain else node


def is_view(node: Node) -> bool:
    """Whether a node's result is a view of its first argument, by the operator's schema."""
    if node.op != "call_function" or not node.args:
        return False
    if node.target is operator.getitem:
        source: Any = node.args[0]
        return is_view(source)
    if not fx_nodes.is_overload(node.target):
        return False
    schema: Any = node.target._schema  # type: ignore[union-attr]  # noqa: SLF001 - FX itself reads it so
    first = schema.arguments[0].alias_info if schema.arguments else None
    return bool(first and not first.is_write and any(r.alias_info for r in schema.returns))
