"""Sums, extremes, softmax and normalisations.

A sum over the last dimensions is written as sums of every sixteenth element, and then of these:
sixteen lanes fill a vector, and the compiler may not reorder additions by itself.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynamo_ext.backends.engines.tvm import scalar_math
from dynamo_ext.backends.engines.tvm.convert import Operation, converts, facts, shape_of
from dynamo_ext.backends.support.single_op import used

LANES = 16


def _combined(kind: str) -> Callable[[Any, Any], Any]:
    """Two elements as one, by ``sum``, ``max``, ``min`` or ``any``."""
    from tvm import tirx

    # Functions of Python's own: TVM reads the names of their arguments.
    return {
        "sum": lambda x, y: x + y,
        "max": scalar_math.maximum,
        "min": scalar_math.minimum,
        "any": lambda x, y: tirx.Or(x, y),  # noqa: PLW0108
    }[kind]


def reducer(kind: str) -> Callable[..., Any]:
    """One of ``sum``, ``max``, ``min``, ``any`` as a commutative reducer."""
    from tvm import te, tirx

    if kind == "sum":
        return te.sum  # type: ignore[no-any-return]

    def identity(dtype: str) -> Any:
        if kind == "any":
            return tirx.const(False, "bool")  # noqa: FBT003
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
    """A tensor of ``te`` reduced over some dimensions, which go, by a ``reducer``.

    ``formula`` gives the element to reduce for a full index, by default the tensor's own; it is
    converted to ``dtype`` beforehand. The names of the stages begin with ``name``.
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
        suffix: str, last: int, place: Callable[..., Any], lanes: tuple[int, ...] = ()
    ) -> Any:
        """Over all that goes, of the last dimension as many as ``last``, at ``place``."""
        extents = [*[shape[d] for d in gone[:-1]], last]
        axes = [te.reduce_axis((0, extent), name="r") for extent in extents]
        *others, final = [axis.var for axis in axes]
        return te.compute(
            (*result, *lanes),
            lambda *own: reduce(
                element(own[: len(result)], [*others, place(final, own)]), axis=axes
            ),
            name=f"{name}_{suffix}" if suffix else name,
        )

    if not gone:
        return te.compute(result, lambda *own: element(own, ()), name=name)
    length = shape[gone[-1]]
    if gone[-1] != len(shape) - 1 or length < 2 * LANES:
        return stage("", length, lambda i, _: i)
    blocks, rest = divmod(length, LANES)
    lanes = stage("lanes", blocks, lambda i, own: i * LANES + own[-1], (LANES,))
    lane = te.reduce_axis((0, LANES), name="lane")
    total = te.compute(
        result, lambda *own: reduce(lanes(*own, lane.var), axis=[lane]), name=f"{name}_total"
    )
    if not rest:
        return total
    tail = stage("tail", rest, lambda i, _: i + blocks * LANES)
    return te.compute(
        result, lambda *own: _combined(kind)(total(*own), tail(*own)), name=f"{name}_all"
    )


def _over(op: Operation, dims: Any) -> tuple[Any, list[int]]:
    """The first input and the dimensions that go, neighbouring ones of a kind merged into one."""
    source = op.node.args[0]
    shape = shape_of(source)
    dims = [dims] if isinstance(dims, int) else dims or range(len(shape))
    gone = {d % len(shape) for d in dims}
    runs = itertools.groupby(range(len(shape)), key=gone.__contains__)
    parts = [(goes, math.prod(shape[d] for d in run)) for goes, run in runs]
    sizes = [size for _, size in parts]
    return op.graph.reshape(source, sizes), [d for d, (goes, _) in enumerate(parts) if goes]


@converts("sum.dim_IntList", "amax.default", "amin.default", "max.default", "min.default")
def _reduction(op: Operation) -> Any:
    kind = op.name[-3:]
    value, gone = _over(op, op.get("dim"))
    return op.reshaped(op.graph.emit(lambda x: reduced(x, gone, kind, op.dtype), [value], kind))


@converts("any.default", "any.dim", "any.dims")
def _any(op: Operation) -> Any:
    if op.dtype != "bool":
        op.refuse("Not a boolean")
    if facts(op["self"]).is_floating_point():
        op.refuse("TVM takes NaN for false")
    return _reduction(op)


@converts("mean.dim", "mean.default")
def _mean(op: Operation) -> Any:
    value, gone = _over(op, op.get("dim"))
    return op.reshaped(op.graph.emit(lambda x: mean_of(x, gone, op.dtype), [value], "mean"))


def mean_of(x: Any, gone: Sequence[int], dtype: str) -> Any:
    """The mean over some dimensions, as a tensor expression."""
    from tvm import te

    total = reduced(x, gone, "sum", dtype, name="mean")
    count = scalar_math.const(math.prod(int(x.shape[d]) for d in gone), dtype)
    return te.compute(total.shape, lambda *i: total(*i) / count, name="mean")


# Softmax and normalisations.


def softmax_of(x: Any, dim: int, dtype: str, *, masked: bool = False) -> Any:
    """The shares of a dimension's exponentials in their sum, as a tensor expression.

    Minus infinity alone gives NaN, or, if ``masked``, shares of nought.
    """
    from tvm import te, tirx

    largest = reduced(x, [dim], "max", dtype, name="largest")
    lowest, nothing, whole = (scalar_math.const(n, dtype) for n in (-math.inf, 0, 1))

    def power(*index: Any) -> Any:
        most = largest(*_without(index, dim))
        value = scalar_math.exp(x(*index) - most)
        return scalar_math.select(tirx.EQ(most, lowest), nothing, value) if masked else value

    powers = te.compute(x.shape, power, name="powers")
    total = reduced(powers, [dim], "sum", dtype, name="total")

    def share(*index: Any) -> Any:
        all_of_it = total(*_without(index, dim))
        if masked:
            all_of_it = scalar_math.select(tirx.EQ(all_of_it, nothing), whole, all_of_it)
        return powers(*index) / all_of_it

    return te.compute(x.shape, share, name="softmax")


def _log_softmax_of(x: Any, dim: int, dtype: str) -> Any:
    from tvm import te, tirx

    largest = reduced(x, [dim], "max", dtype, name="largest")

    def power(index: Sequence[Any]) -> Any:
        return scalar_math.exp(x(*index) - largest(*_without(index, dim)))

    total = reduced(x, [dim], "sum", dtype, power, "total")
    shift = te.compute(total.shape, lambda *i: largest(*i) + tirx.log(total(*i)), name="shift")
    return te.compute(x.shape, lambda *i: x(*i) - shift(*_without(i, dim)), name="log_softmax")


def _without(index: Sequence[Any], dim: int) -> list[Any]:
    return [i for d, i in enumerate(index) if d != dim]


@converts("_softmax.default", "_log_softmax.default")
def _softmax(op: Operation) -> Any:
    if not op.shape:
        op.refuse("One number")
    value, (dim,) = _over(op, op["dim"])
    function = _log_softmax_of if op.name == "log_softmax" else softmax_of
    made = op.graph.emit(lambda x: function(x, dim, op.dtype), [value], "softmax")
    return op.reshaped(made)


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
    names = [name for name in ("weight", "bias") if op[name] is not None]
    scales = [op.graph.reshape(op[name], (width,)) for name in names]

    def statistics(x: Any) -> tuple[Any, Any]:
        mean = mean_of(x, [1], op.dtype)

        def square(index: Sequence[Any]) -> Any:
            off = x(*index) - mean(index[0])
            return off * off

        spread = reduced(x, [1], "sum", op.dtype, square, name="variance")
        count = scalar_math.const(width, op.dtype)
        root = te.compute(
            (rows,), lambda r: _inverse_root(spread(r) / count, op["eps"], op.dtype), name="inverse"
        )
        return mean, root

    def function(x: Any, *given: Any) -> Any:
        mean, root = statistics(x)

        def element(r: Any, i: Any) -> Any:
            result = (x(r, i) - mean(r)) * root(r)
            for name, scale in zip(names, given, strict=True):
                result = result * scale(i) if name == "weight" else result + scale(i)
            return result

        return te.compute((rows, width), element, name="layer_norm")

    results = [op.reshaped(op.graph.emit(function, [value, *scales], "layer_norm"))]
    if any(used(op.node)):
        mean = op.graph.emit(lambda x: statistics(x)[0], [value], "mean")
        root = op.graph.emit(lambda x: statistics(x)[1], [value], "root")
        small = [int(size) for size in op.node.meta["val"][1].shape]
        results += [op.graph.reshape(mean, small), op.graph.reshape(root, small)]
    return results


@converts("_native_batch_norm_legit_no_training.default")
def _batch_norm(op: Operation) -> Any:
    names = ("weight", "bias", "running_mean", "running_var")
    given = {name: op[name] for name in names if op[name] is not None}
    known = {name: op.graph.constant(tensor) for name, tensor in given.items()}

    def element(x: Any, *rest: Any) -> Any:
        *tensors, index = rest
        own = {name: tensor(index[1]) for name, tensor in zip(given, tensors, strict=True)}
        factor = _inverse_root(own["running_var"], op["eps"], op.dtype)
        if "weight" in own:
            factor = factor * own["weight"]
        result = (x(*index) - own["running_mean"]) * factor
        return result + own["bias"] if "bias" in own else result

    if any(constant is None for constant in known.values()):
        made = op.compute(element, op["input"], *given.values())
    else:
        # One factor and one summand for each channel, in double precision until the end.
        wide = {name: constant.double() for name, constant in known.items() if constant is not None}
        factor = (wide["running_var"] + op["eps"]).rsqrt() * wide.get("weight", 1)
        offset = wide.get("bias", 0) - wide["running_mean"] * factor
        pair = [op.graph.tensor(each.to(facts(op.node).dtype)) for each in (factor, offset)]
        made = op.compute(lambda x, f, o, i: x(*i) * f(i[1]) + o(i[1]), op["input"], *pair)
    return [made, *[op.graph.tensor(torch.empty(0))] * 2]
