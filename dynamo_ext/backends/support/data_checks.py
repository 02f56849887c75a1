"""Where torch raises an error because of the data, and an engine does not: indices, divisors.

An engine that is given an index out of range clamps it, reads another's memory or ends the process,
and makes a number up for an integer divided by zero. So a partition that has such operations gives
one more result, whether torch would raise. Where it is true the call fails, and eager runs it, so
that torch raises its own error.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node, map_arg

from dynamo_ext.backends.base import (
    CompiledFn,
    LoweringError,
    RunEagerlyError,
    RunThisCallEagerlyError,
)
from dynamo_ext.backends.fx_graph import attribute, duplicate
from dynamo_ext.torch_private import fx_nodes

_MESSAGE = "An index is out of range, or an integer is divided by zero."

EXACT = 2**24
"""The largest integer that has all smaller ones beside it in 32 bits, integral or floating."""

_LARGE = "An integer is larger than the engine computes exactly."

_DIVISIONS = ("div", "floor_divide", "fmod", "remainder")


class _Demand(NamedTuple):
    """What torch demands of a tensor of integers, or of one number.

    Every element is at least ``least`` and less than ``end``; without an end it is not zero.
    """

    operand: Any
    least: int = 0
    end: int | None = None

    def allows(self, ends: tuple[int, int]) -> bool:
        """Whether it is fulfilled by the smallest and the largest integer, and all between."""
        return self.end is not None and self.least <= ends[0] and ends[1] < self.end

    def broken(self, given: Any) -> Any:
        """Where ``given``, a tensor or a node, does not fulfil it."""
        if self.end is None:
            return _call(torch.ops.aten.eq.Scalar, given, 0)
        below = _call(torch.ops.aten.lt.Scalar, given, self.least)
        beyond = _call(torch.ops.aten.ge.Scalar, given, self.end)
        return _call(torch.ops.aten.bitwise_or.Tensor, below, beyond)


def with_check(graph: GraphModule) -> GraphModule | None:
    """A copy of a partition whose last result says whether torch would raise; ``None`` if never.

    Raises ``LoweringError`` where constants of the graph would make torch raise at each call.
    """
    made = duplicate(graph)
    output: Any = made.graph.output_node()
    found: list[Node] = []
    with made.graph.inserting_before(output):
        for demand in _open_demands(made):
            broken = demand.broken(demand.operand)
            found.append(_call(torch.ops.aten.any.default, broken))
        if not found:
            return None
        either = functools.partial(_call, torch.ops.aten.bitwise_or.Tensor)
        output.args = ((*output.args[0], functools.reduce(either, found)),)
    made.recompile()
    return made


def raising(run: CompiledFn) -> CompiledFn:
    """What runs a graph of ``with_check``: ``RunEagerlyError`` where torch would raise."""

    def call(*inputs: Any) -> list[Any]:
        *results, wrong = run(*inputs)
        if wrong:
            raise RunEagerlyError(_MESSAGE)
        return results

    return call


def input_check(graph: GraphModule) -> Callable[[Sequence[Any]], None] | None:
    """What looks at the integers among a graph's inputs before a call; ``None`` without any.

    It is for an engine that computes integers in fewer bits, and is given none that it computes by
    arithmetic. It raises ``RunEagerlyError`` where torch would raise, and
    ``RunThisCallEagerlyError`` where one is beyond ``EXACT``. This raises ``LoweringError`` as
    ``with_check``.
    """
    given = graph.graph.find_nodes(op="placeholder")
    whole = {place: node for place, node in enumerate(given) if _is_wide(_value(node))}
    held = graph.graph.find_nodes(op="get_attr")
    constant = {n: _range(attribute(graph, str(n.target))) for n in held if _is_wide(_value(n))}
    if not all(map(_exact, constant.values())):
        raise LoweringError(_LARGE)
    demands = [(demand, _sources(demand.operand)) for demand in _open_demands(graph)]

    def look(inputs: Sequence[Any]) -> None:
        ranges = constant | {node: _range(inputs[place]) for place, node in whole.items()}
        for demand, sources in demands:
            # What is only moved has no other range.
            if not all(s in ranges and demand.allows(ranges[s]) for s in sources):
                known = dict(zip(given, inputs, strict=True))
                if demand.broken(_evaluated(graph, demand.operand, known)).any():
                    raise RunEagerlyError(_MESSAGE)
        if not all(map(_exact, ranges.values())):
            raise RunThisCallEagerlyError(_LARGE)

    return look if whole else None


def _is_wide(value: Any) -> bool:
    return getattr(value, "dtype", None) in (torch.int64, torch.int32)


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    low, high = tensor.aminmax() if tensor.numel() else (0, 0)
    return int(low), int(high)


def _exact(ends: tuple[int, int]) -> bool:
    return ends[0] >= -EXACT and ends[1] <= EXACT


def _sources(operand: Node) -> dict[Node, None]:
    """The inputs and constants of a graph that integers are moved from."""
    if operand.op != "call_function":
        return {operand: None}
    return {each: None for source in operand.all_input_nodes for each in _sources(source)}


def _evaluated(graph: GraphModule, node: Node, known: Mapping[Node, Any]) -> Any:
    if node in known:
        return known[node]
    if node.op == "get_attr":
        return attribute(graph, str(node.target))
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: _evaluated(graph, n, known))
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _open_demands(graph: GraphModule) -> Iterator[_Demand]:
    """What torch demands of operands that are not constant, each once.

    Raises ``LoweringError`` where a constant does not fulfil it.
    """
    for demand in dict.fromkeys(each for node in graph.graph.nodes for each in _demands(node)):
        given = demand.operand
        if isinstance(given, Node) and given.op != "get_attr":
            yield demand
            continue
        held = isinstance(given, Node)
        known = attribute(graph, str(given.target)) if held else torch.tensor(given)
        if demand.broken(known).any():
            raise LoweringError(_MESSAGE)


def _demands(node: Node) -> Iterator[_Demand]:
    """What torch demands of an operation's operands, by the names in the operator's schema."""
    if node.op != "call_function" or not fx_nodes.is_overload(node.target):
        return
    given = fx_nodes.arguments(node)
    name = str(node.target).split(".")[1]
    shape = getattr(_value(given.get("self")), "shape", ())
    if name == "embedding":
        yield _Demand(given["indices"], 0, _value(given["weight"]).shape[0])
    elif name in _DIVISIONS and not _value(node).is_floating_point():
        yield _Demand(given["other"])
    elif isinstance(given.get("index"), Node) and "dim" in given:
        yield _Demand(given["index"], 0, shape[given["dim"]] if shape else 1)
    elif isinstance(given.get("indices"), (list, tuple)):
        for index, count in zip(given["indices"], shape, strict=False):
            # A mask has no indices.
            if index is not None and _value(index).dtype not in (torch.bool, torch.uint8):
                yield _Demand(index, -count, count)


def _call(operator: Any, first: Any, *rest: Any) -> Any:
    """An operator on tensors; on nodes, a new node behind the graph's last one."""
    if not isinstance(first, Node):
        return operator(first, *rest)
    made = first.graph.call_function(operator, (first, *rest))
    value = _value(first)
    shape = () if operator is torch.ops.aten.any.default else value.shape
    made.meta["val"] = value.new_empty(shape, dtype=torch.bool)
    return made


def _value(operand: Any) -> Any:
    return operand.meta.get("val") if isinstance(operand, Node) else operand
