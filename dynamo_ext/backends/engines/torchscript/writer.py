"""A graph written as TorchScript.

One FX node becomes one TorchScript node whose schema is checked against the operator that it
came from, so an overload is never guessed. The graph is written by ``torch_private.JitGraph``
rather than read from source by ``torch.jit.script``, which keeps all it ever compiled, and
the weights frozen into it, until the process ends.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.base import LoweringError
from dynamo_ext.backends.engines.torchscript import torch_private
from dynamo_ext.backends.support.single_op import used
from dynamo_ext.torch_private import dispatch

_NUMBERS = (bool, int, float, complex)

_FILLS = frozenset(
    {
        "aten::constant_pad_nd",
        "aten::fill",
        "aten::full",
        "aten::full_like",
        "aten::masked_fill",
        "aten::new_full",
        "aten::scalar_tensor",
    }
)
"""Operators that convert a number to a dtype known otherwise: 1 serves them as well as True."""


class Writer:
    """Writes FX nodes into a TorchScript graph, one by one, in order."""

    def __init__(self) -> None:
        self.jit = torch_private.JitGraph()
        self._values: dict[Node, Any] = {}

    def placeholder(self, node: Node) -> None:
        """An input."""
        self._values[node] = self.jit.placeholder(node.meta.get("val"))

    def attribute(self, node: Node, value: object) -> None:
        """A tensor of the module, as a constant; raises ``LoweringError`` for others."""
        if not isinstance(value, torch.Tensor):
            message = f"TorchScript takes no {type(value).__name__} as a constant."
            raise LoweringError(message)
        self._values[node] = self.jit.constant(value.detach())

    def item(self, node: Node) -> None:
        """``operator.getitem``: of several results, or of a list of tensors."""
        source: Any = node.args[0]
        position: Any = node.args[1]
        found = self._values[source]
        if isinstance(found, list):
            self._values[node] = found[position]
            return
        kind = torch_private.jit_type_of(node.meta.get("val"))
        at = self.jit.constant(position)
        _, (self._values[node],) = self.jit.call("aten::__getitem__", [found, at], [kind])

    def operation(self, node: Node, *, composite: bool = False) -> None:
        """One call of one overload, every argument in its place.

        Where it is ``composite``, of the composite operator that TorchScript optimizes, if any.
        """
        target, args = (composite and _composite(node)) or _turned(node)
        schema = target._schema  # noqa: SLF001 - FX itself reads it so
        inputs, loose = [], False
        # Whether an operator of `_FILLS` knows its dtype without looking at the number.
        typed = bool(node.all_input_nodes) or node.kwargs.get("dtype") is not None
        for position, argument in enumerate(schema.arguments):
            if position < len(args):
                given = args[position]
            else:
                given = node.kwargs.get(argument.name, argument.default_value)
            if typed and isinstance(given, bool) and schema.name in _FILLS:
                given = int(given)
            number = isinstance(given, _NUMBERS)
            # A node for a number is a symbolic size, or what comes of one.
            value = getattr(given, "meta", {}).get("val")
            if str(argument.type) == "Tensor" and (number or isinstance(value, dispatch.NUMBERS)):
                # Eager wraps the number; TorchScript has an overload that takes it as it is.
                loose = True
                inputs.append(self.jit.constant(given) if number else self._values[given])
            else:
                inputs.append(self._value(given, argument.type, target))
        types = [each.type for each in schema.returns]
        found, results = self.jit.call(schema.name, inputs, types)
        wanted = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        got = found.partition("(")[0]
        if got != wanted and not (loose and got.partition(".")[0] == schema.name):
            what = f"takes it for {got}" if got else "has no such operator"
            message = f"TorchScript {what}."
            raise LoweringError(message, str(target))
        # A composite operator may have the first of several alone.
        own: Any = node.target
        self._values[node] = results[0] if len(own._schema.returns) == 1 else results  # noqa: SLF001

    def returns(self, nodes: Sequence[Any]) -> None:
        """The results."""
        self.jit.returns([self._values[node] for node in nodes])

    def _value(self, given: Any, kind: Any, target: object) -> Any:
        if isinstance(given, Node):
            found = self._values[given]
            if isinstance(found, list):
                message = "It takes several results as one."
                raise LoweringError(message, str(target))
            return found
        while kind.kind() == "OptionalType":
            if given is None:
                return self.jit.constant(None)
            kind = kind.getElementType()
        if kind.kind() == "ListType":
            element = kind.getElementType()
            if not isinstance(given, (list, tuple)):
                message = f"{given!r} stands where a list is wanted."
                raise LoweringError(message, str(target))
            items = [self._value(each, element, target) for each in given]
            _, (made,) = self.jit.call("prim::ListConstruct", items, [kind])
            return made
        convert = {"FloatType": float, "BoolType": bool}.get(kind.kind())
        return self.jit.constant(convert(given) if convert and given is not None else given)


def written(graph: GraphModule, *, fold: bool = False) -> Writer:
    """Write a whole graph, its constants folded as far as ``JitGraph.freeze`` does.

    Raises ``LoweringError`` where TorchScript has no operator for a node.
    """
    writer = Writer()
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            writer.placeholder(node)
        elif node.op == "get_attr":
            writer.attribute(node, operator.attrgetter(str(node.target))(graph))
        elif node.op == "output":
            writer.returns(node.args[0])
        elif node.target is operator.getitem:
            writer.item(node)
        else:
            writer.operation(node, composite=True)
    writer.jit.freeze(fold=fold)
    return writer


def _turned(node: Node) -> tuple[Any, list[Any]]:
    """A node's operator and arguments; ``2 - x`` as what TorchScript has for it."""
    aten = torch.ops.aten
    target: Any = node.target
    args: list[Any] = list(node.args)
    first = len(args) > 1 and isinstance(args[0], _NUMBERS) and hasattr(args[1], "op")
    if first and target is aten.sub.Tensor:
        return aten.rsub.Scalar, [args[1], args[0]]
    if first and (target is aten.mul.Tensor or (target is aten.add.Tensor and not node.kwargs)):
        return target, [args[1], args[0]]
    return target, args


def _composite(node: Node) -> tuple[Any, list[Any]] | None:
    """The composite operator that computes the same, and its arguments."""
    aten = torch.ops.aten
    args: list[Any] = list(node.args)
    if node.target is aten.convolution.default and not args[6] and not node.kwargs:
        x, weight, bias, stride, padding, dilation, _, _, groups = args
        by_rank: Mapping[int, Any] = {1: aten.conv1d, 2: aten.conv2d, 3: aten.conv3d}
        rank = len(stride)
        batched = x.meta["val"].dim() == rank + 2
        if rank in by_rank and batched and len(padding) == len(dilation) == rank:
            return by_rank[rank].default, [x, weight, bias, stride, padding, dilation, groups]
    batch_norm = aten._native_batch_norm_legit_no_training.default  # noqa: SLF001 - an operator
    if node.target is batch_norm and used(node) in ([], [0]):
        # Not in training, and without cuDNN.
        return aten.batch_norm.default, [*args[:5], False, *args[5:], False]
    if node.target is aten.addmm.default and not node.kwargs and args[0].meta["val"].dim() == 1:
        turned = args[2]
        flips = turned.target is aten.t.default or (
            turned.target is aten.permute.default and list(turned.args[1]) == [1, 0]
        )
        # Its weights are a constant matrix that is transposed.
        if flips and turned.args[0].op == "get_attr":
            return aten.linear.default, [args[1], turned.args[0], args[0]]
    return None
