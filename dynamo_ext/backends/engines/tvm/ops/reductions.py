"""Sums, extremes, softmax and normalisations.

A sum over the last dimensions is written as sums of every sixteenth element, and then of these:
sixteen lanes fill a vector, and the compiler may not reorder additions by itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.engines.tvm import scalar_math
from dynamo_ext.backends.engines.tvm.convert import (
    Operation,
    converts,
    facts,
    positive,
    refuse,
    shape_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LANES = 16


def _combined(kind: str) -> Callable[[Any, Any], Any]:
    """Two elements as one, by ``sum``, ``max``, ``min``, ``any`` or ``all``."""
    from tvm import tirx

    # Functions of Python's own: TVM reads the names of their arguments.
    return {
        "sum": lambda x, y: x + y,
        "max": scalar_math.maximum,
        "min": scalar_math.minimum,
        "any": lambda x, y: tirx.Or(x, y),  # noqa: PLW0108
        "all": lambda x, y: tirx.And(x, y),  # noqa: PLW0108
    }[kind]


def reducer(kind: str) -> Callable[..., Any]:
    """One of ``sum``, ``max``, ``min``, ``any``, ``all`` as a commutative reducer."""
    from tvm import te, tirx

    if kind == "sum":
        return te.sum  # type: ignore[no-any-return]

    def identity(dtype: str) -> Any:
        if kind in ("any", "all"):
            return tirx.const(kind == "all", "bool")
        if dtype.startswith("float"):
            return tirx.const(-math.inf if kind == "max" else math.inf, dtype)
        return (tirx.min_value if kind == "max" else tirx.max_value)(dtype)

    return te.comm_reducer(_combined(kind), identity, name=kind)  # type: ignore[no-any-return]


def reduced(  # noqa: PLR0913, PLR0917 - each says what the reduction is
    tensor: Any,
    dims: Sequence[int],
    kind: str,
    dtype: str,
    formula: Callable[..., Any] | None = None,
    name: str = "",
) -> Any:
    """A tensor expression reduced over some dimensions, which go.

    Parameters
    ----------
    tensor
        A tensor of ``te``, whose shape counts.
    dims
        Dimensions, from the front.
    kind
        ``sum``, ``max``, ``min``, ``any`` or ``all``.
    dtype
        What elements are converted to beforehand.
    formula
        Gives the element to reduce for a full index; by default the tensor's own.
    name
        Stem of the stages' names.
    """
    from tvm import te

    shape = [int(size) for size in tensor.shape]
    name = name or kind
    gone = sorted(set(dims))
    kept = [d for d in range(len(shape)) if d not in gone]
    read = formula or (lambda index: tensor(*index))
    reduce = reducer(kind)
    result = tuple(shape[d] for d in kept)

    def element(own: Sequence[Any], over: Sequence[Any]) -> Any:
        index: list[Any] = [None] * len(shape)
        for d, i in zip([*kept, *gone], [*own, *over], strict=True):
            index[d] = i
        return scalar_math.cast(read(index), dtype)

    def stage(
        suffix: str, stem: str, last: int, place: Callable[..., Any], lanes: tuple[int, ...] = ()
    ) -> Any:
        """Over all that goes, of the last dimension as many as ``last``, at ``place``."""
        axes = [te.reduce_axis((0, shape[d]), name=f"{stem}{d}") for d in gone[:-1]]
        axes.append(te.reduce_axis((0, last), name=suffix or f"{stem}{gone[-1]}"))
        *others, final = [axis.var for axis in axes]
        return te.compute(
            (*result, *lanes),
            lambda *own: reduce(
                element(own[: len(result)], [*others, place(final, own)]), axis=axes
            ),
            name=f"{name}_{suffix}" if suffix else name,
        )

    length = shape[gone[-1]]
    if gone[-1] != len(shape) - 1 or length < 2 * LANES:
        return stage("", "r", length, lambda i, _: i)
    blocks, rest = divmod(length, LANES)
    lanes = stage("lanes", "r", blocks, lambda i, own: i * LANES + own[-1], (LANES,))
    lane = te.reduce_axis((0, LANES), name="lane")
    total = te.compute(
        result, lambda *own: reduce(lanes(*own, lane.var), axis=[lane]), name=f"{name}_total"
    )
    if not rest:
        return total
    tail = stage("tail", "t", rest, lambda i, _: i + blocks * LANES)
    return te.compute(
        result, lambda *own: _combined(kind)(total(*own), tail(*own)), name=f"{name}_all"
    )


def merged(shape: Sequence[int], dims: Sequence[int]) -> tuple[list[int], list[int]]:
    """Neighbouring dimensions that are all kept, or all reduced, as one."""
    sizes: list[int] = []
    gone: list[int] = []
    before: bool | None = None
    for d, size in enumerate(shape):
        now = d in dims
        if now == before:
            sizes[-1] *= size
        else:
            sizes.append(size)
            if now:
                gone.append(len(sizes) - 1)
        before = now
    return sizes, gone


def _over(op: Operation, dims: Any) -> tuple[Any, list[int]]:
    """The first input with neighbouring dimensions merged, and those of them that go."""
    source = op.node.args[0]
    shape = shape_of(source)
    dims = [dims] if isinstance(dims, int) else dims or range(len(shape))
    sizes, gone = merged(shape, [positive(d, len(shape)) for d in dims])
    return op.graph.reshape(source, sizes), gone


def _reduction(
    op: Operation, kind: str, dims: Any, finish: Callable[[Any], Any] | None = None
) -> Any:
    """A reduction of ``self`` (the first input) with the node's shape and dtype."""
    value, gone = _over(op, dims)
    if not gone:
        return op.graph.compute((), op.dtype, lambda x, _: x(), [value], kind)

    def function(x: Any) -> Any:
        from tvm import te

        total = reduced(x, gone, kind, op.dtype)
        if finish is None:
            return total
        return te.compute(total.shape, lambda *i: finish(total(*i)), name="finish")

    return op.reshaped(op.graph.emit(function, [value], kind))


@converts("sum.dim_IntList", "sum.default")
def _sum(op: Operation) -> Any:
    return _reduction(op, "sum", op.get("dim"))


@converts("mean.dim", "mean.default")
def _mean(op: Operation) -> Any:
    count = math.prod(shape_of(op["self"])) // math.prod(op.shape)
    return _reduction(
        op, "sum", op.get("dim"), lambda total: total / scalar_math.const(count, op.dtype)
    )


@converts("amax.default", "amin.default", "max.default", "min.default")
def _extreme(op: Operation) -> Any:
    return _reduction(op, op.name[-3:], op.get("dim"))


@converts("any.default", "any.dim", "any.dims", "all.default", "all.dim", "all.dims")
def _any(op: Operation) -> Any:
    if op.dtype != "bool":
        refuse("Not a boolean")
    if facts(op["self"]).is_floating_point():
        refuse("TVM takes NaN for false")
    return _reduction(op, op.name, op.get("dim"))


@converts("var.correction", "var_mean.correction")
def _var(op: Operation) -> Any:
    if not shape_of(op["self"]):
        refuse("The variance of one number")
    value, gone = _over(op, op["dim"])
    correction = 1 if op["correction"] is None else op["correction"]
    count = math.prod(shape_of(op["self"])) // math.prod(op.shape)
    mean = op.graph.emit(lambda x: mean_of(x, gone, op.dtype), [value], "mean")
    spread = op.graph.emit(
        lambda x, m: variance_of(x, m, gone, op.dtype, max(count - correction, 0.0)),
        [value, mean],
        "variance",
    )
    found = op.reshaped(spread)
    return [found, op.reshaped(mean)] if op.name == "var_mean" else found


def mean_of(x: Any, gone: Sequence[int], dtype: str) -> Any:
    """The mean over some dimensions, as a tensor expression."""
    from tvm import te

    total = reduced(x, gone, "sum", dtype, name="mean")
    count = scalar_math.const(math.prod(int(x.shape[d]) for d in gone), dtype)
    return te.compute(total.shape, lambda *i: total(*i) / count, name="mean")


def variance_of(x: Any, mean: Any, gone: Sequence[int], dtype: str, divisor: float) -> Any:
    """The mean square about a mean, as a tensor expression."""
    from tvm import te

    def square(index: Sequence[Any]) -> Any:
        own = [i for d, i in enumerate(index) if d not in gone]
        off = scalar_math.cast(x(*index), dtype) - mean(*own)
        return off * off

    total = reduced(x, gone, "sum", dtype, square, name="variance")
    return te.compute(
        total.shape, lambda *i: total(*i) / scalar_math.const(divisor, dtype), name="variance"
    )


# Softmax and normalisations.


@converts("_softmax.default", "_log_softmax.default")
def _softmax(op: Operation) -> Any:
    from tvm import te, tirx

    if not op.shape:
        refuse("One number")
    value, (dim,) = _over(op, op["dim"])

    def without(index: Sequence[Any]) -> list[Any]:
        return [i for d, i in enumerate(index) if d != dim]

    def function(x: Any) -> Any:
        largest = reduced(x, [dim], "max", op.dtype, name="largest")

        def power(*index: Any) -> Any:
            return scalar_math.exp(x(*index) - largest(*without(index)))

        if op.name == "log_softmax":
            total = reduced(x, [dim], "sum", op.dtype, lambda i: power(*i), "total")
            shift = te.compute(
                total.shape, lambda *i: largest(*i) + tirx.log(total(*i)), name="shift"
            )
            return te.compute(x.shape, lambda *i: x(*i) - shift(*without(i)), name="log_softmax")
        powers = te.compute(x.shape, power, name="powers")
        total = reduced(powers, [dim], "sum", op.dtype, name="total")
        return te.compute(x.shape, lambda *i: powers(*i) / total(*without(i)), name="softmax")

    return op.reshaped(op.graph.emit(function, [value], "softmax"))


def _inverse_root(variance: Any, epsilon: float, dtype: str) -> Any:
    from tvm import tirx

    root = tirx.sqrt(variance + scalar_math.const(epsilon, dtype))
    return scalar_math.const(1, dtype) / root


@converts("native_layer_norm.default")
def _layer_norm(op: Operation) -> Any:
    from tvm import te

    width = math.prod(op["normalized_shape"])
    rows = math.prod(op.shape) // width
    value = op.graph.reshape(op["input"], (rows, width))
    scales = [op.graph.reshape(scale, (width,)) for scale in op.given("weight", "bias")]

    def statistics(x: Any) -> tuple[Any, Any]:
        mean = mean_of(x, [1], op.dtype)
        spread = variance_of(x, mean, [1], op.dtype, float(width))
        root = te.compute(
            (rows,), lambda r: _inverse_root(spread(r), op["eps"], op.dtype), name="inverse"
        )
        return mean, root

    def function(x: Any, *given: Any) -> Any:
        mean, root = statistics(x)

        def element(r: Any, i: Any) -> Any:
            scale = list(given)
            result = (x(r, i) - mean(r)) * root(r)
            if op["weight"] is not None:
                result = result * scale.pop(0)(i)
            return result + scale.pop(0)(i) if scale else result

        return te.compute((rows, width), element, name="layer_norm")

    results = [op.reshaped(op.graph.emit(function, [value, *scales], "layer_norm"))]
    if op.results_read() - {0}:
        mean = op.graph.emit(lambda x: mean_of(x, [1], op.dtype), [value], "mean")
        root = op.graph.emit(lambda x: statistics(x)[1], [value], "root")
        small = [int(size) for size in op.node.meta["val"][1].shape]
        results += [op.graph.reshape(mean, small), op.graph.reshape(root, small)]
    return results


@converts("_native_batch_norm_legit_no_training.default")
def _batch_norm(op: Operation) -> Any:
    import torch

    names = ("weight", "bias", "running_mean", "running_var")
    known = {name: op.graph.constant(op[name]) for name in names if op[name] is not None}
    if any(constant is None for constant in known.values()):
        made = op.compute(_normalised(op), op["input"], *op.given(*names))
    else:
        # One factor and one summand for each channel, in double precision until the end.
        wide = {name: constant.double() for name, constant in known.items() if constant is not None}
        factor = (wide["running_var"] + op["eps"]).rsqrt() * wide.get("weight", 1)
        offset = wide.get("bias", 0) - wide["running_mean"] * factor
        pair = [op.graph.tensor(each.to(facts(op.node).dtype)) for each in (factor, offset)]
        made = op.compute(lambda x, f, o, i: x(*i) * f(i[1]) + o(i[1]), op["input"], *pair)
    return [made, *[op.graph.tensor(torch.empty(0))] * 2]


def _normalised(op: Operation) -> Callable[..., Any]:
    def element(x: Any, *rest: Any) -> Any:
        *tensors, index = rest
        values = [tensor(index[1]) for tensor in tensors]
        spread, mean = values.pop(), values.pop()
        bias = values.pop() if op["bias"] is not None else None
        factor = _inverse_root(spread, op["eps"], op.dtype)
        result = (x(*index) - mean) * (factor * values[0] if values else factor)
        return result if bias is None else result + bias

    return element
