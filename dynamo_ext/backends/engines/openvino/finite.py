"""Which results of a partition are finite in every call whose inputs are of a usual size.

OpenVINO's own ReLU, clamp and max pooling lose NaN. They are fused with the convolution before
them, which the forms that keep NaN are not. Where an operation's input cannot be NaN, its own form
is right. NaN and infinity come from inputs, or from results that grow beyond the dtype. So sizes
are bounded from operation to operation, by what is checked in each call: inputs, and where the
bound would become too large, a result within.
"""

import math
import operator
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.engines.openvino.compress import constant
from dynamo_ext.backends.fx_graph import is_view, root_of_views
from dynamo_ext.backends.support.single_op import is_convolution, operator_name
from dynamo_ext.torch_private import fx_nodes

SMALL = 1e8
"""The size of a tensor that is checked: the root of the sum of its squares."""

_LARGEST = 1e30
"""The largest bound of a result: float32 and bfloat16 go up to 3e38."""

_MOST_CHECKS = 12

SPARED = ("aten::relu", "aten::clamp", "aten::hardtanh", "aten::max_pool2d_with_indices")
"""Operations whose own form is right for finite numbers."""


class Finite(NamedTuple):
    """The names of operations in ``SPARED`` whose inputs are finite where ``checked`` are small."""

    spared: Collection[str] = ()
    checked: Collection[str] = ()


def found(graph: GraphModule) -> Finite:
    """What is finite; nothing where none of the operations in ``SPARED`` would gain by it."""
    if not any(map(is_convolution, graph.graph.nodes)):
        return Finite()
    bounds = Bounds(graph)
    while (beyond := bounds.first_beyond()) and len(bounds.checked) < _MOST_CHECKS:
        bounds.checked[beyond] = None
    small = {node for node, bound in bounds.known.items() if bound <= _LARGEST}
    spared = [n for n in graph.graph.nodes if operator_name(n.target) in SPARED]
    spared = [node for node in spared if node.args[0] in small]
    needed = set(spared)
    for node in reversed(graph.graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    given = graph.graph.find_nodes(op="placeholder")
    checked = [n.name for n in (*given, *bounds.checked) if n in needed and _is_float(n)]
    return Finite({node.name for node in spared}, checked) if spared else Finite()


def add_check(graph: GraphModule, checked: Iterable[str]) -> None:
    """Append a result: the sum of the squares of the tensors of these names, as float32."""
    aten = torch.ops.aten
    output = graph.graph.output_node()
    nodes = {node.name: node for node in graph.graph.nodes}
    total: Any = None
    with graph.graph.inserting_before(output):

        def call(target: Any, *args: Any, **kwargs: Any) -> Node:
            made: Node = graph.graph.call_function(target, args, kwargs)
            made.meta["val"] = torch.empty((), device="meta")
            return made

        for node in map(nodes.__getitem__, checked):
            squares = call(aten.mul.Tensor, node, node)
            size = call(aten.sum.default, squares)
            wide = call(aten._to_copy.default, size, dtype=torch.float32)  # noqa: SLF001 - an operator
            total = wide if total is None else call(aten.add.Tensor, total, wide)
        former: Any = output.args[0]
        output.args = ((*former, total),)
    graph.recompile()


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()


class Bounds:
    """The largest magnitude that each result can have; infinity where that is not known."""

    def __init__(self, graph: GraphModule) -> None:
        self.graph = graph
        constants = graph.graph.find_nodes(op="get_attr")
        self._sizes = {node: _size(constant(graph, node)) for node in constants}
        self._sums: dict[Node, float] = {}
        self.checked: dict[Node, None] = {}
        self.known: dict[Node, float] = {}

    def first_beyond(self) -> Node | None:
        """Bound all; the first result that has to be checked for a later one to be bounded."""
        self.known = {}
        for node in self.graph.graph.nodes:
            if node.op == "placeholder":
                bound = SMALL if _is_float(node) else math.inf
            elif node.op == "get_attr":
                bound = self._sizes[node]
            elif node.op == "call_function":
                bound = self._of(node)
                if _LARGEST < bound < math.inf:
                    if (source := self._to_check(node)) is not None:
                        return source
                    bound = math.inf
            else:
                continue
            if math.isnan(bound):
                bound = math.inf
            self.known[node] = min(bound, SMALL) if node in self.checked else bound
        return None

    def _to_check(self, node: Node) -> Node | None:
        """Behind which operation to check, for a node to be bounded: a ReLU or its like, if any."""
        first = None
        while True:
            node = root_of_views(max(node.all_input_nodes, key=self.known.__getitem__))
            if node.op != "call_function" or node in self.checked:
                return first
            # A copy may be left out before anything is checked.
            if not _is_float(node) or operator_name(node.target) == "aten::clone":
                continue
            if operator_name(node.target) in SPARED:
                return node
            first = first or node

    def _of(self, node: Node) -> float:
        name = operator_name(node.target).removeprefix("aten::").partition(".")[0]
        sizes = [self.known[source] for source in node.all_input_nodes]
        if not (sizes and max(sizes) < math.inf and node.kwargs.keys() <= _KWARGS):
            return math.inf
        if rule := _RULES.get(name):
            return rule(self, node)
        if node.target is operator.getitem and not _is_float(node):
            return math.inf
        view = is_view(node) and node.target is not torch.ops.aten.view.dtype
        if name in _NO_LARGER or view or node.target is operator.getitem:
            return max(sizes)
        return 1.0 if name in _UP_TO_ONE else math.inf

    def operand(self, value: Any) -> float:
        """The bound of what an operation is given: a node, a number or nothing."""
        if isinstance(value, Node):
            return self.known[value]
        size = 0.0 if value is None else abs(float(value))
        return size if math.isfinite(size) else math.inf

    def product(self, left: Any, right: Any, dims: tuple[int, ...]) -> float:
        """The bound of sums of products, along these dimensions of the second one."""
        if right not in self._sums:
            value = constant(self.graph, right)
            if value is None:
                shape = right.meta["val"].shape
                self._sums[right] = self.known[right] * math.prod(int(shape[d]) for d in dims)
            else:
                self._sums[right] = _size(
                    torch.linalg.vector_norm(value.detach(), 1, dims, dtype=torch.float32)
                )
        return self.known[left] * self._sums[right]


def _size(value: Any) -> float:
    if not isinstance(value, torch.Tensor) or not value.numel() or value.is_complex():
        return math.inf
    low, high = map(float, value.detach().aminmax())
    found = max(-low, high)
    return found if math.isfinite(found) else math.inf


def _convolution(bounds: Bounds, node: Node) -> float:
    x, weight, bias, *_ = node.args
    if node.args[6]:
        return math.inf
    dims = tuple(range(1, weight.meta["val"].ndim))  # type: ignore[union-attr]
    return bounds.product(x, weight, dims) + bounds.operand(bias)


def _matrices(bounds: Bounds, node: Node) -> float:
    if node.kwargs:
        return math.inf
    *added, left, right = node.args
    return bounds.product(left, right, (-2,)) + sum(map(bounds.operand, added))


def _sum(bounds: Bounds, node: Node) -> float:
    left, right, *rest = node.args
    alpha: Any = rest[0] if rest else node.kwargs.get("alpha", 1)
    return bounds.operand(left) + abs(float(alpha)) * bounds.operand(right)


def _within(bounds: Bounds, node: Node) -> float:
    size = bounds.operand(node.args[0])
    ends = [bounds.operand(end) for end in node.args[1:] if end is not None]
    numbers = [end for end in node.args[1:] if isinstance(end, (int, float))]
    # Between a number below zero and one above, nothing is larger than these.
    if len(numbers) == 2 and numbers[0] <= 0 <= numbers[1]:  # noqa: PLR2004
        return min(size, max(ends))
    return max([size, *ends])


def _batch_norm(bounds: Bounds, node: Node) -> float:
    x, weight, bias, mean, variance = node.args[:5]
    spread: Any = constant(bounds.graph, variance)
    scale: Any = constant(bounds.graph, weight) if weight is not None else torch.ones(())
    if spread is None or scale is None or (spread < 0).any():
        return math.inf
    epsilon: Any = node.args[6]
    largest = _size(scale.detach() / (spread.detach() + epsilon).sqrt())
    return largest * (bounds.operand(x) + bounds.operand(mean)) + bounds.operand(bias)


def _of_window(bounds: Bounds, node: Node) -> float:
    given = fx_nodes.arguments(node)
    # With a dilation a window may have nothing but the padding, which is infinite, and with a
    # divisor of its own an average may be a sum.
    dilated = any(step != 1 for step in given.get("dilation") or ())
    return math.inf if dilated or given.get("divisor_override") else bounds.operand(node.args[0])


_RULES: dict[str, Callable[[Bounds, Node], float]] = {
    "convolution": _convolution,
    "mm": _matrices,
    "addmm": _matrices,
    "avg_pool2d": _of_window,
    "add": _sum,
    "sub": _sum,
    "mul": lambda bounds, node: math.prod(map(bounds.operand, node.args[:2])),
    "clamp": _within,
    "hardtanh": _within,
    "max_pool2d_with_indices": _of_window,
    "constant_pad_nd": lambda bounds, n: max(map(bounds.operand, (n.args[0], *n.args[2:]))),
    "_native_batch_norm_legit_no_training": _batch_norm,
}

_KWARGS = {"alpha", "dtype", "memory_format"}

_UP_TO_ONE = ("hardsigmoid", "sigmoid", "tanh")

_NO_LARGER = (
    "_adaptive_avg_pool2d",
    "adaptive_avg_pool2d",
    "cat",
    "clone",
    "hardswish",
    "mean",
    "relu",
    "silu",
    "upsample_nearest2d",
)
"""Operations whose results are at most as large as what they are given."""
