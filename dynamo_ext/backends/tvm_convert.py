"""From a partition of the functional ATen graph to a Relax module.

Nodes are walked inside a ``relax.BlockBuilder``. What depends on constants alone is computed by
torch beforehand. Operators have converters of their own, written as tensor expressions: TVM's
importers from PyTorch are wrong on ordinary code (negative indices, ``alpha``, NaN, the dtype of
mixed operands).
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, NoReturn

from dynamo_ext.backends import torch_private, tvm_math

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from torch.fx import GraphModule, Node

    Converter = Callable[["Walk", Node, dict[str, Any]], Any]

CONVERTERS: dict[str, Converter] = {}
"""Operators (``aten.add.Tensor``) to what converts them."""


_OUT_ELEMENTWISE_FUSABLE = 4
"""Relax's pattern kind of an operator whose result elementwise operators may follow in place."""

_OPAQUE = 8
"""Relax's pattern kind of an operator that nothing is fused with."""


def converts(*names: str) -> Callable[[Converter], Converter]:
    """Register a converter: it gets the walk, the node and the arguments by name."""

    def register(function: Converter) -> Converter:
        CONVERTERS.update({f"aten.{name}": function for name in names})
        return function

    return register


class ConversionError(RuntimeError):
    """A node has a form that its converter does not know."""


def refuse(what: str) -> NoReturn:
    """Say that a node is not converted, and why."""
    message = f"The converter to TVM does not take it: {what}."
    raise ConversionError(message)


def dtype_name(dtype: torch.dtype) -> str:
    """A torch dtype as TVM calls it."""
    return str(dtype).removeprefix("torch.")


class Walk:
    """A graph on its way to Relax.

    Parameters
    ----------
    graph
        Placeholders in, a tuple of tensors out; constants are ``get_attr`` nodes. Every node has
        its value in ``meta["val"]``, of fixed sizes.

    Attributes
    ----------
    module
        The ``tvm.IRModule``; its ``main`` takes the placeholders and gives a tuple: the graph's
        outputs, then the faults.
    faults
        Messages, one for each zero-dimensional boolean among the last outputs. Where one is true,
        an index was out of range, and the results mean nothing.
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
        self._checks: list[tuple[Any, str]] = []
        self.builder = relax.BlockBuilder()
        self.faults: list[str] = []
        self._write(graph)
        self.module = self.builder.get()

    def _write(self, graph: GraphModule) -> None:
        nodes = list(graph.graph.nodes)
        outputs: Any = graph.graph.output_node().args[0]
        parameters = []
        for node in nodes:
            if node.op == "placeholder":
                self._values[node] = self._parameter(node)
                parameters.append(self._values[node])
            elif node.op == "get_attr":
                self._constants[node] = getattr(graph, str(node.target))
        with self.builder.function("main", parameters):
            with self.builder.dataflow():
                failure: Exception | None = None
                results: list[Any] = []
                try:
                    for node in nodes:
                        if node.op == "call_function":
                            self._call(node)
                    results = [*self._owned(outputs), *self._noted()]
                except Exception as error:  # noqa: BLE001 - raised once the builder is at rest
                    failure = error
                made = self.builder.emit_output(self._relax.Tuple(results))
            self.builder.emit_func_output(made)
        if failure is not None:
            # A builder that is left in the middle of a function says so on the screen.
            raise failure

    def _parameter(self, node: Node) -> Any:
        facts = node.meta["val"]
        kind = self._relax.TensorType([int(s) for s in facts.shape], dtype_name(facts.dtype))
        return self._relax.Var(node.name, kind)

    def _call(self, node: Node) -> None:
        if node.target is operator.getitem:
            source: Any = node.args[0]
            found = self._constants if source in self._constants else self._values
            found[node] = found[source][node.args[1]]
            return
        if all(source in self._constants for source in node.all_input_nodes):
            self._constants[node] = self._computed(node)
            return
        converter = CONVERTERS.get(str(node.target))
        if converter is None:
            message = f"There is no converter for {node.target}."
            raise ConversionError(message)
        self._values[node] = converter(self, node, torch_private.arguments(node))

    def _computed(self, node: Node) -> Any:
        import torch
        from torch.fx import map_arg

        target: Any = node.target
        with torch.no_grad():
            args = map_arg(node.args, self._constants.__getitem__)
            kwargs = map_arg(node.kwargs, self._constants.__getitem__)
            return target(*args, **kwargs)

    def _owned(self, nodes: Sequence[Node]) -> list[Any]:
        """The results, each with memory of its own: copies where two would share, or an input."""
        taken = {hash(self.value(n)) for n in self._values if n.op == "placeholder"}
        taken |= {hash(made) for _, made in self._emitted.values()}
        owned = []
        for node in nodes:
            value = self.value(node)
            base = self.base(value)
            if hash(base) in taken or node in self._constants:
                kind = dtype_name(facts(node).dtype)
                value = self.compute(shape_of(value), kind, lambda x, i: x(*i), [value], "copy")
            taken.add(hash(base))
            owned.append(value)
        return owned

    def _noted(self) -> list[Any]:
        self.faults += [message for _, message in self._checks]
        return [fault for fault, _ in self._checks]

    # What converters use.

    def constant(self, argument: Any) -> torch.Tensor | None:
        """The tensor behind an argument where it is known beforehand; else ``None``."""
        found: torch.Tensor | None = self._constants.get(argument)
        return found

    def tensor(self, constant: torch.Tensor) -> Any:
        """A torch tensor as a Relax constant."""
        known = self._emitted.get(id(constant))
        if known is not None:
            return known[1]
        import tvm

        # TVM's own memory: what a user does to theirs does not show in an engine.
        array = tvm.runtime.tensor(constant.detach().cpu().contiguous().numpy())
        made = self._relax.const(array)
        self._emitted[id(constant)] = (constant, made)
        return made

    def value(self, argument: Any) -> Any:
        """A node's tensor in Relax."""
        if argument in self._constants:
            return self.tensor(self._constants[argument])
        return self._values[argument]

    def reshape(self, value: Any, shape: Sequence[int]) -> Any:
        """A tensor in another shape; its memory is shared, and one in its first shape is itself."""
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
        known = self._bases.get(hash(value))
        return value if known is None else known[1]

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
        values: Sequence[Any],
        name: str,
        *,
        anchor: bool = False,
        alone: bool = False,
    ) -> Any:
        """A tensor expression of some tensors as a function of its own.

        ``anchor`` says that it is a product, with which later elementwise ones may be fused, and
        ``alone`` that it is fused with nothing.
        """
        pattern = _OUT_ELEMENTWISE_FUSABLE if anchor else _OPAQUE if alone else None
        attributes = None if pattern is None else {"op_pattern": pattern}
        return self.builder.emit_te(
            function, *values, primfunc_name_hint=name, primfunc_attrs=attributes
        )

    def compute(
        self,
        shape: Sequence[int],
        dtype: str,
        formula: Callable[..., Any],
        sources: Sequence[Any],
        name: str,
    ) -> Any:
        """A tensor of which each element is ``formula(*tensors, index)``.

        Parameters
        ----------
        shape, dtype
            The tensor's.
        formula
            Gives a TIR expression from tensors of ``te`` and a tuple of index expressions.
        sources
            Nodes or Relax values: the tensors.
        name
            The function's, for those who read the module.
        """
        from tvm import te

        values = [s if isinstance(s, self._relax.Expr) else self.value(s) for s in sources]

        def function(*tensors: Any) -> Any:
            return te.compute(
                tuple(int(size) for size in shape),
                lambda *index: tvm_math.cast(formula(*tensors, index), dtype),
                name=name,
            )

        # Whole numbers wrap around in torch, and never do in TVM's algebra: it would know that
        # ``x > x - 1`` of what it is shown together.
        return self.emit(function, values, name, alone=dtype.startswith(("int", "uint")))

    def check(self, fault: Any, message: str) -> None:
        """Note a zero-dimensional boolean that is true where the results mean nothing."""
        self._checks.append((fault, message))


def shape_of(value: Any) -> tuple[int, ...]:
    """The sizes of a Relax value."""
    return tuple(int(size) for size in value.ty.shape)


def facts(node: Any) -> torch.Tensor:
    """A node's value as AOTAutograd traced it; of several results, the first."""
    value = node.meta["val"]
    return value[0] if isinstance(value, (tuple, list)) else value  # type: ignore[no-any-return]


def positive(dim: int, rank: int) -> int:
    """A dimension counted from the front."""
    return dim + rank if dim < 0 else dim


def elements(shape: Sequence[int]) -> int:
    """How many elements a shape has."""
    return math.prod(int(size) for size in shape)


def load(tensor: Any, index: Sequence[Any]) -> Any:
    """An element of a tensor that is broadcast to the rank and sizes of an index."""
    shape = tensor.shape
    own = list(index)[len(index) - len(shape) :]
    return tensor(*[0 if int(size) == 1 else i for size, i in zip(shape, own, strict=True)])


def all_converters() -> Mapping[str, Converter]:
    """Every converter; imports the files that hold them."""
    from dynamo_ext.backends import (  # noqa: F401 - they register
        tvm_functions,
        tvm_indexing,
        tvm_logic,
        tvm_matmul,
        tvm_norms,
        tvm_pointwise,
        tvm_reductions,
        tvm_views,
        tvm_windows,
    )

    return CONVERTERS
