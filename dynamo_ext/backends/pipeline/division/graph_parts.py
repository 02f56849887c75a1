"""A captured graph as parts, each a graph of its own, and the call of them one after another.

Parts are stretches of the graph, so that operations keep their order. Blocks of autocast, and the
mode of gradients, end with a part and begin again with the next one.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node, map_arg

from dynamo_ext.backends.effects import of_node
from dynamo_ext.backends.fx_graph import give_facts, named, own_copy
from dynamo_ext.backends.pipeline.division.autograd_cuts import cuts, tensors
from dynamo_ext.backends.pipeline.input_views import picks, value_of, written
from dynamo_ext.torch_private import dispatch

_THREADED = {
    *("cross_entropy", "nll_loss", "binary_cross_entropy_with_logits", "softmax", "log_softmax"),
    *("layer_norm", "group_norm", "batch_norm", "gelu"),
}


@dataclass(frozen=True)
class Part:
    """A stretch of a captured graph.

    ``inputs`` and ``outputs`` are names of that graph's nodes. ``examples`` are the inputs: fake
    tensors where an earlier part computes or changes them. Of inputs that are ``detached``,
    autograd records nothing in it. A ``rewrites`` part changes what an earlier part computed, which
    has a history for autograd.
    """

    graph: GraphModule
    inputs: list[str]
    outputs: list[str]
    examples: list[Any]
    detached: set[str]
    rewrites: bool

    def operations(self) -> list[Node]:
        """Its operations on tensors."""
        nodes = (node for node in self.graph.graph.nodes if node.op.startswith("call_"))
        return [node for node in nodes if not picks(node) and any(True for _ in tensors(node))]

    def wakes_threads(self) -> bool:
        """Whether torch computes one of them with several threads, however few values there are."""
        return any(_name(node) in _THREADED for node in self.operations())


def divided(graph: GraphModule, examples: Sequence[Any]) -> list[Part]:
    """The parts of a graph of Dynamo's; none where autograd finds all results in it as it is.

    ``examples`` are its inputs. Raises ``StayEager`` where it cannot be divided.
    """
    results = graph.graph.output_node().all_input_nodes
    if not any(value.requires_grad for node in results for value in tensors(node)):
        return []
    ordered = own_copy(graph)
    for node in list(ordered.graph.nodes):
        if picks(node):
            node.args[0].append(node)
    # As AOTAutograd does of each part: what one part gives to another has a gradient, if of zeros.
    for node in reversed(ordered.graph.nodes):
        computes = node.op.startswith("call_") and any(True for _ in tensors(node))
        if computes and not node.users and not any(of_node(node)):
            ordered.graph.erase_node(node)
    starts = cuts(ordered)
    return _Parts(ordered, starts, examples).parts if starts else []


def joined(
    graph: GraphModule, parts: Sequence[Part], calls: Sequence[Callable[..., Any]]
) -> Callable[..., Any]:
    """What calls the compiled parts of a graph, one after another."""
    chain = Graph()
    inputs = graph.graph.find_nodes(op="placeholder")
    nodes = {node.name: chain.placeholder(node.name) for node in inputs}
    for number, (part, call) in enumerate(zip(parts, calls, strict=True), 1):
        given = tuple(
            chain.call_method("detach", (nodes[each],)) if each in part.detached else nodes[each]
            for each in part.inputs
        )
        function = named(lambda *args, call=call: call(*args), f"part_{number}")
        results = chain.call_function(function, given)
        for position, name in enumerate(part.outputs):
            nodes[name] = chain.call_function(operator.getitem, (results, position))
    returned: Any = graph.graph.output_node().args[0]
    chain.output(map_arg(returned, lambda node: nodes[node.name]))
    call_all: Callable[..., Any] = GraphModule(torch.nn.Module(), chain).forward
    return call_all


class _Parts:
    """The parts of a graph that is cut in front of the nodes ``starts``."""

    def __init__(self, graph: GraphModule, starts: Sequence[Node], examples: Sequence[Any]) -> None:
        self._graph = graph
        placeholders = graph.graph.find_nodes(op="placeholder")
        self._given = dict(zip(placeholders, examples, strict=True))
        stretches: list[list[Node]] = [[]]
        for node in graph.graph.nodes:
            if node in starts:
                stretches.append([])
            if node.op.startswith("call_"):
                stretches[-1].append(node)
        needed = [self._needed(stretch) for stretch in stretches]
        needed.append(dict.fromkeys(graph.graph.output_node().all_input_nodes))
        # The switch of gradients that holds, and blocks of autocast that have begun.
        self._grad: Node | None = None
        self._casts: list[Node] = []
        # What earlier parts have computed for autograd, and what they have changed, by memory.
        self._recorded: set[int | None] = set()
        self._changed: set[int | None] = set()
        self.parts: list[Part] = []
        for number, stretch in enumerate(stretches):
            later = {node for each in needed[number + 1 :] for node in each}
            last = number == len(stretches) - 1
            self.parts.append(self._part(stretch, list(needed[number]), later, last=last))

    def _needed(self, stretch: Sequence[Node]) -> dict[Node, None]:
        """What a stretch reads that comes from elsewhere, and all symbolic sizes of the graph."""
        needed = {n: None for n, each in self._given.items() if isinstance(each, dispatch.SYMBOLS)}
        known, waiting = set(stretch), [node for n in stretch for node in n.all_input_nodes]
        for node in waiting:
            if node in known or node.op == "get_attr" or _name(node) == "_enter_autocast":
                continue
            known.add(node)
            # One part gives these to another; all else is made again from them.
            if isinstance(value_of(node), (torch.Tensor, *dispatch.SYMBOLS)):
                needed[node] = None
            else:
                waiting += node.all_input_nodes
        return needed

    def _part(
        self, stretch: Sequence[Node], inputs: list[Node], later: set[Node], *, last: bool
    ) -> Part:
        graph = Graph()
        nodes = {node: self._placeholder(graph, node) for node in inputs}

        def copy(node: Node) -> Node:
            if node not in nodes:
                nodes[node] = graph.node_copy(node, copy)
            return nodes[node]

        # A node of autograd would lead a backward pass from the part's results to theirs.
        detached = {n for n in inputs if n not in self._given and _is_only_read(n, stretch)}
        examples = [self._example(node, detach=node in detached) for node in inputs]
        if self._grad is not None:
            copy(self._grad)
        for node in (*self._casts, *stretch):
            copy(node)
            self._follow(node)
        if not last:
            for cast in reversed(self._casts):
                copy(next(node for node in cast.users if _name(node) == "_exit_autocast"))
            if self._grad is not None:
                graph.call_function(self._grad.target, (torch.is_grad_enabled(),))  # type: ignore[arg-type]
        outputs = [node for node in stretch if node in later]
        graph.output(tuple(nodes[node] for node in outputs))
        changed = {dispatch.memory_of(v) for node in stretch for v in tensors(written(node))}
        rewrites = not self._recorded.isdisjoint(changed - {None})
        values = [v for node in stretch for v in (*tensors(node), *tensors(written(node)))]
        self._recorded.update(dispatch.memory_of(v) for v in values if v.requires_grad)
        self._changed |= changed
        part = GraphModule(self._graph, graph)
        give_facts(self._graph, part)
        given, made = ([node.name for node in each] for each in (inputs, outputs))
        return Part(part, given, made, examples, {node.name for node in detached}, rewrites)

    def _placeholder(self, graph: Graph, node: Node) -> Node:
        given = node.op == "placeholder"
        made = graph.node_copy(node) if given else graph.placeholder(node.name)
        made.meta["example_value"] = value_of(node)
        # What is computed comes from nowhere in the user's code.
        made._dynamo_source = getattr(node, "_dynamo_source", None)  # noqa: SLF001 - Dynamo's mark
        return made

    def _example(self, node: Node, *, detach: bool) -> Any:
        """What is given for an input, or a fake one like it where an earlier part made it so."""
        given, value = self._given.get(node), value_of(node)
        changed = self._changed.intersection(map(dispatch.memory_of, tensors(node)))
        if given is not None and not changed:
            return given
        # A leaf: AOTAutograd reads the gradients of inputs, of which torch warns where it is none.
        tensor = isinstance(value, torch.Tensor)
        needs = tensor and value.requires_grad and not detach
        return value.detach().requires_grad_(needs) if tensor else value

    def _follow(self, node: Node) -> None:
        """Note a node that switches a mode."""
        if _name(node) == "_set_grad_enabled":
            self._grad = node
        elif _name(node) == "_enter_autocast" and node not in self._casts:
            self._casts.append(node)
        elif _name(node) == "_exit_autocast":
            self._casts.remove(node.all_input_nodes[0])


def _is_only_read(node: Node, stretch: Sequence[Node]) -> bool:
    """Whether a tensor with a history is used for results without one alone, as by ``detach``."""
    within = [user for user in node.users if user in stretch]
    made = [v for user in within for v in (*tensors(user), *tensors(written(user)))]
    has_history = any(value.requires_grad for value in tensors(node))
    return has_history and not any(value.requires_grad for value in made)


def _name(node: Node) -> str:
    return str(getattr(node.target, "__name__", node.target))
