"""From a partition of the functional ATen graph to a Relax module.

Nodes are converted inside a ``relax.BlockBuilder``. What depends on constants alone is computed by
torch beforehand. Operators have converters of their own, written as tensor expressions: TVM's
importers from PyTorch are wrong on ordinary code (negative indices, ``alpha``, NaN, the dtype of
mixed operands), and what they make of ``exp`` and ``softmax`` does not vectorise.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch.fx import GraphModule, Node, map_arg

from dynamo_ext.backends.base import LoweringError
from dynamo_ext.backends.engines.tvm import scalar_math
from dynamo_ext.torch_private import fx_nodes

Converter = Callable[["Operation"], Any]

CONVERTERS: dict[str, Converter] = {}
"""Operators (``aten.add.Tensor``) to what converts them."""

OUT_ELEMENTWISE_FUSABLE = 4
"""Relax's pattern kind of an operator whose result elementwise operators may follow in place."""

_OPAQUE = 8
"""Relax's pattern kind of an operator that nothing is fused with."""


def converts(*names: str) -> Callable[[Converter], Converter]:
    """Register the converter of some operators (``add.Tensor``)."""

    def register(function: Converter) -> Converter:
        CONVERTERS.update({f"aten.{name}": function for name in names})
        return function

    return register


def facts(node: Any) -> torch.Tensor:
    """A node's value as AOTAutograd traced it; of several results, the first."""
    value = node.meta["val"]
    return value[0] if isinstance(value, (tuple, list)) else value  # type: ignore[no-any-return]


def shape_of(value: Any) -> tuple[int, ...]:
    """The sizes of a node's (first) result, or of a Relax value."""
    shape = facts(value).shape if hasattr(value, "meta") else value.ty.shape
    return tuple(int(size) for size in shape)


def dtype_of(node: Any) -> str:
    """The dtype of a node's (first) result, as TVM calls it."""
    return str(facts(node).dtype).removeprefix("torch.")


class GraphConverter:
    """A graph on its way to Relax.

    ``graph`` takes placeholders and gives a tuple of tensors; constants are ``get_attr`` nodes.
    Every node has its value in ``meta["val"]``, of fixed sizes.

    The ``main`` of ``module``, a ``tvm.IRModule``, takes the placeholders and gives the graph's
    outputs, which may share memory.
    """

    def __init__(self, graph: GraphModule) -> None:
        from tvm import relax

        self._relax = relax
        self._values: dict[Node, Any] = {}
        self._constants: dict[Node, Any] = {}
        self._emitted: dict[int, tuple[torch.Tensor, Any]] = {}
        # By hash, which is the object's address: ``==`` of expressions is an expression.
        self._bases: dict[int, tuple[Any, Any]] = {}
        self._packed: dict[tuple[int, int], tuple[torch.Tensor, Any]] = {}
        self.builder = relax.BlockBuilder()
        self._convert(graph)
        self.module = self.builder.get()

    def _convert(self, graph: GraphModule) -> None:
        outputs: Any = graph.graph.output_node().args[0]
        inputs = graph.graph.find_nodes(op="placeholder")
        for node in inputs:
            kind = self._relax.TensorType(shape_of(node), dtype_of(node))
            self._values[node] = self._relax.Var(node.name, kind)
        for node in graph.graph.find_nodes(op="get_attr"):
            self._constants[node] = getattr(graph, str(node.target))
        results: list[Any] = []
        with self.builder.function("main", [self._values[node] for node in inputs]):
            # A builder that is left in the middle of a function says so on the screen.
            try:
                with self.builder.dataflow():
                    try:
                        for node in graph.graph.nodes:
                            if node.op == "call_function":
                                self._call(node)
                        results = [*map(self.value, outputs)]
                    finally:
                        made = self.builder.emit_output(self._relax.Tuple(results))
            finally:
                self.builder.emit_func_output(made)

    def _call(self, node: Node) -> None:
        if node.target is operator.getitem:
            source: Any = node.args[0]
            found = self._constants if source in self._constants else self._values
            found[node] = found[source][node.args[1]]
        elif all(source in self._constants for source in node.all_input_nodes):
            self._constants[node] = self._computed(node)
        elif converter := CONVERTERS.get(str(node.target)):
            self._values[node] = converter(Operation(self, node))
        else:
            message = f"There is no converter for {node.target}."
            raise LoweringError(message)

    def _computed(self, node: Node) -> Any:
        target: Any = node.target
        args, kwargs = map_arg((node.args, node.kwargs), self._constants.__getitem__)
        with torch.no_grad():
            return target(*args, **kwargs)

    # What converters use.

    def constant(self, argument: Any) -> torch.Tensor | None:
        """The tensor behind an argument where it is known beforehand; else ``None``."""
        return self._constants.get(argument) if hasattr(argument, "meta") else None

    def tensor(self, constant: torch.Tensor) -> Any:
        """A torch tensor as a Relax constant."""
        if id(constant) not in self._emitted:
            import tvm

            # TVM's own memory: what a user does to theirs does not show in an engine.
            array = tvm.runtime.tensor(constant.detach().cpu().contiguous().numpy())
            self._emitted[id(constant)] = constant, self._relax.const(array)
        return self._emitted[id(constant)][1]

    def value(self, argument: Any) -> Any:
        """A node's tensor in Relax; what is in Relax already is itself."""
        if isinstance(argument, self._relax.Expr):
            return argument
        if argument in self._constants:
            return self.tensor(self._constants[argument])
        return self._values[argument]

    def reshape(self, argument: Any, shape: Sequence[int]) -> Any:
        """A tensor in another shape; its memory is shared, and one in its first shape is itself."""
        value = self.value(argument)
        base = self.base(value)
        if shape_of(base) == tuple(shape):
            return base
        if shape_of(value) == tuple(shape):
            return value
        made = self.builder.emit(self._relax.op.reshape(base, [int(size) for size in shape]))
        self._bases[hash(made)] = (made, base)
        return made

    def base(self, value: Any) -> Any:
        """The tensor that another is a reshaped view of, or itself."""
        return self._bases.get(hash(value), (value, value))[1]

    def packed(
        self, constant: torch.Tensor, width: int, pack: Callable[[Any, int], torch.Tensor]
    ) -> Any:
        """A constant in another layout; the same one is laid out once."""
        key = (id(constant), width)
        if key not in self._packed:
            self._packed[key] = (constant, self.tensor(pack(constant, width)))
        return self._packed[key][1]

    def emit(
        self,
        function: Callable[..., Any],
        sources: Sequence[Any],
        name: str,
        pattern: int | None = None,
    ) -> Any:
        """A tensor expression of some nodes or Relax values as a function of its own.

        Relax finds its pattern kind out by itself unless it is given.
        """
        attributes = None if pattern is None else {"op_pattern": pattern}
        return self.builder.emit_te(
            function, *map(self.value, sources), primfunc_name_hint=name, primfunc_attrs=attributes
        )

    def compute(
        self,
        shape: Sequence[int],
        dtype: str,
        formula: Callable[..., Any],
        sources: Sequence[Any],
        name: str,
    ) -> Any:
        """A tensor of which each element is ``formula(*tensors, index)``, a TIR expression.

        ``sources``, nodes or Relax values, are its tensors; the index is a tuple of expressions.
        """
        from tvm import te

        def function(*tensors: Any) -> Any:
            return te.compute(
                tuple(shape),
                lambda *index: scalar_math.cast(formula(*tensors, index), dtype),
                name=name,
            )

        # Whole numbers wrap around in torch, and never do in TVM's algebra: it would know that
        # ``x > x - 1`` of what it is shown together.
        pattern = _OPAQUE if dtype.startswith(("int", "uint")) else None
        return self.emit(function, sources, name, pattern)


class Operation:
    """A node that is being converted; ``operation["dim"]`` is its argument of that name.

    Its ``name`` is the operator's without the overload; ``shape`` and ``dtype`` are those of its
    (first) result.
    """

    def __init__(self, graph: GraphConverter, node: Node) -> None:
        self.graph = graph
        self.node = node
        self.name = str(node.target).split(".")[1].strip("_")
        self.shape = shape_of(node)
        self.dtype = dtype_of(node)
        self._arguments = fx_nodes.arguments(node)

    def __getitem__(self, name: str) -> Any:
        return self._arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, or the default where the operator has none of that name."""
        return self._arguments.get(name, default)

    def given(self, *names: str) -> list[Any]:
        """Those of some arguments that the operator has and that are not ``None``."""
        return [self.get(name) for name in names if self.get(name) is not None]

    def dim(self, rank: int | None = None) -> int:
        """The argument ``dim``, counted from the front, of as many as the result has."""
        return int(self["dim"]) % (len(self.shape) if rank is None else rank)

    def refuse(self, what: str) -> NoReturn:
        """Raise the error that says why it is not converted."""
        message = f"The converter to TVM does not take it: {what}."
        raise LoweringError(message)

    def compute(self, formula: Callable[..., Any], *sources: Any) -> Any:
        """The result, of which each element is ``formula(*tensors, index)``."""
        return self.graph.compute(self.shape, self.dtype, formula, sources, self.name)

    def reshaped(self, argument: Any) -> Any:
        """A tensor in the shape of the result."""
        return self.graph.reshape(argument, self.shape)
