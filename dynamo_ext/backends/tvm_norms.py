"""Softmax and normalisations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import tvm_math
from dynamo_ext.backends.tvm_convert import (
    Walk,
    converts,
    dtype_name,
    elements,
    facts,
    positive,
    refuse,
    shape_of,
)
from dynamo_ext.backends.tvm_reductions import mean_of, merged, reduced, variance_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import Node


@converts("_softmax.default", "_log_softmax.default")
def _softmax(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    shape = [int(size) for size in facts(node).shape]
    dtype = dtype_name(facts(node).dtype)
    if not shape:
        refuse("One number")
    logarithm = "log" in str(node.target)
    sizes, gone = merged(shape, [positive(a["dim"], len(shape))])
    value = walk.reshape(walk.value(a["self"]), sizes)
    made = walk.emit(lambda x: softmax(x, gone[0], dtype, logarithm=logarithm), [value], "softmax")
    return walk.reshape(made, shape)


def softmax(x: Any, dim: int, dtype: str, *, logarithm: bool = False) -> Any:
    """Softmax, or its logarithm, over one dimension, as a tensor expression."""
    from tvm import te, tirx

    def without(index: Sequence[Any]) -> list[Any]:
        return [i for d, i in enumerate(index) if d != dim]

    largest = reduced(x, [dim], "max", dtype, name="largest")
    if logarithm:
        total = reduced(
            x, [dim], "sum", dtype, lambda i: tvm_math.exp(x(*i) - largest(*without(i))), "total"
        )
        shift = te.compute(total.shape, lambda *i: largest(*i) + tirx.log(total(*i)), name="shift")
        return te.compute(x.shape, lambda *i: x(*i) - shift(*without(i)), name="log_softmax")
    powers = te.compute(
        x.shape, lambda *i: tvm_math.exp(x(*i) - largest(*without(i))), name="powers"
    )
    total = reduced(powers, [dim], "sum", dtype, name="total")
    return te.compute(x.shape, lambda *i: powers(*i) / total(*without(i)), name="softmax")


@converts("native_layer_norm.default")
def _layer_norm(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    from tvm import te, tirx

    shape = [int(size) for size in facts(a["input"]).shape]
    width = elements(a["normalized_shape"])
    rows = elements(shape) // width
    dtype = dtype_name(facts(node).dtype)
    value = walk.reshape(walk.value(a["input"]), (rows, width))
    scales = [
        walk.reshape(walk.value(a[k]), (width,)) for k in ("weight", "bias") if a[k] is not None
    ]

    def statistics(x: Any) -> tuple[Any, Any]:
        mean = mean_of(x, [1], dtype)
        spread = variance_of(x, mean, [1], dtype, float(width))
        root = te.compute(
            (rows,),
            lambda r: (
                tvm_math.const(1, dtype) / tirx.sqrt(spread(r) + tvm_math.const(a["eps"], dtype))
            ),
            name="inverse",
        )
        return mean, root

    def function(x: Any, *given: Any) -> Any:
        mean, root = statistics(x)

        def element(r: Any, i: Any) -> Any:
            left = list(given)
            result = (x(r, i) - mean(r)) * root(r)
            if a["weight"] is not None:
                result = result * left.pop(0)(i)
            return result + left.pop(0)(i) if a["bias"] is not None else result

        return te.compute((rows, width), element, name="layer_norm")

    made = walk.emit(function, [value, *scales], "layer_norm")
    results = [walk.reshape(made, shape)]
    read = {user.args[1] for user in node.users}
    if read - {0}:
        mean = walk.emit(lambda x: mean_of(x, [1], dtype), [value], "mean")
        root = walk.emit(lambda x: statistics(x)[1], [value], "root")
        small = [int(size) for size in node.meta["val"][1].shape]
        results += [walk.reshape(mean, small), walk.reshape(root, small)]
    return results


@converts("_native_batch_norm_legit_no_training.default")
def _batch_norm(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    import torch

    names = ("weight", "bias", "running_mean", "running_var")
    known = [None if a[name] is None else walk.constant(a[name]) for name in names]
    kind = dtype_name(facts(node).dtype)
    source = walk.value(a["input"])
    shape = shape_of(source)
    if known[2] is not None and known[3] is not None:
        # One factor and one summand for each channel, in double precision until the end.
        wide: list[Any] = [None if k is None else k.double() for k in known]
        factor = (wide[3] + a["eps"]).rsqrt()
        factor = factor if wide[0] is None else factor * wide[0]
        offset = -wide[2] * factor
        offset = offset if wide[1] is None else offset + wide[1]
        pair = [walk.tensor(each.to(facts(node).dtype)) for each in (factor, offset)]
        made = walk.compute(
            shape, kind, lambda x, f, o, i: x(*i) * f(i[1]) + o(i[1]), [source, *pair], "batch_norm"
        )
        return [made, *[walk.tensor(torch.empty(0))] * 2]
    from tvm import tirx

    given = [walk.value(a[name]) for name in names if a[name] is not None]

    def element(x: Any, *rest: Any) -> Any:
        index, tensors = rest[-1], list(rest[:-1])
        channel = index[1]
        spread, mean = tensors.pop()(channel), tensors.pop()(channel)
        bias = tensors.pop()(channel) if a["bias"] is not None else None
        root = tvm_math.const(1, kind) / tirx.sqrt(spread + tvm_math.const(a["eps"], kind))
        factor = root * tensors.pop()(channel) if a["weight"] is not None else root
        result = (x(*index) - mean) * factor
        return result if bias is None else result + bias

    made = walk.compute(shape, kind, element, [source, *given], "batch_norm")
    return [made, *[walk.tensor(torch.empty(0))] * 2]
