"""Convolutions and poolings; a signal is a plane of one row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dynamo_ext.backends.engines.tvm import scalar_math
from dynamo_ext.backends.engines.tvm.convert import (
    OUT_ELEMENTWISE_FUSABLE,
    Operation,
    converts,
    shape_of,
)
from dynamo_ext.backends.engines.tvm.ops.reductions import reducer
from dynamo_ext.backends.engines.tvm.schedule import register_tiles
from dynamo_ext.backends.support.single_op import used


class _Window(NamedTuple):
    """A window that slides over planes: of each setting, the numbers for rows and columns."""

    kernel: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]

    @classmethod
    def of(cls, op: Operation, kernel: Sequence[int], spatial: int = 2) -> _Window:
        def plane(given: Sequence[int], default: int) -> Sequence[int]:
            return [default] * (2 - spatial) + [*given] * (spatial // len(given))

        kernel = plane(kernel, 1)
        stride = plane(op["stride"], 1) if op["stride"] else kernel
        return cls(kernel, stride, plane(op["padding"], 0), plane(op.get("dilation", [1]), 1))

    def under(self, place: Sequence[Any], taps: Sequence[Any]) -> list[Any]:
        """The row and column of the input that an element of the kernel lies on."""
        settings = zip(place, self.stride, taps, self.dilation, strict=True)
        return [index * stride + tap * dilation for index, stride, tap, dilation in settings]


def _axes(extents: Sequence[int], names: str = "yx") -> list[Any]:
    from tvm import te

    return [te.reduce_axis((0, size), name=name) for size, name in zip(extents, names, strict=True)]


def _as_planes(shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape[:2], *([1] if len(shape) == 3 else []), *shape[2:])  # noqa: PLR2004 - a signal


@converts("convolution.default")
def _convolution(op: Operation) -> Any:
    from tvm import topi

    spatial = len(op.shape) - 2
    if op["transposed"]:
        op.refuse("A transposed convolution")
    if spatial > 2 or not op.dtype.startswith("float"):  # noqa: PLR2004 - planes
        op.refuse("A convolution of volumes, or of whole numbers")
    shape, filters = (_as_planes(shape_of(op[name])) for name in ("input", "weight"))
    result = _as_planes(op.shape)
    window = _Window.of(op, filters[-spatial:], spatial)
    source = op.graph.reshape(op["input"], shape)
    if any(window.padding):
        margins = [0, 0, *window.padding]
        source = op.graph.emit(lambda x: topi.nn.pad(x, margins), [source], "margins")
    convolve = _depthwise if op["groups"] == shape[1] == filters[0] > 1 else _dense
    made = convolve(op, source, filters, window, result)
    if op["bias"] is not None:
        made = op.graph.compute(
            result, op.dtype, lambda x, b, i: x(*i) + b(i[1]), [made, op["bias"]], "bias"
        )
    return op.reshaped(made)


def _dense(
    op: Operation, source: Any, filters: Sequence[int], window: _Window, result: Sequence[int]
) -> Any:
    from tvm import te

    channels, inputs = filters[:2]
    groups = int(op["groups"])
    within = channels // groups
    lanes = register_tiles.channel_width(within)
    blocks = -(-within // lanes)
    tile = register_tiles.plane_tile(*result[2:])
    plane = [
        register_tiles.whole_tiles(size, part) for size, part in zip(result[2:], tile, strict=True)
    ]

    def held(place: Any, d: int) -> Any:
        # Places beyond the image are its last again, and are not read.
        whole = plane[d] == result[2 + d]
        return place if whole else scalar_math.at_most(place, result[2 + d] - 1)

    def function(x: Any, w: Any) -> Any:
        axes = _axes([inputs, *window.kernel], "iyx")
        i, *taps = (axis.var for axis in axes)

        def element(n: Any, block: Any, row: Any, column: Any, lane: Any) -> Any:
            first = 0 if groups == 1 else (block // blocks) * inputs
            place = window.under([held(row, 0), held(column, 1)], taps)
            return te.sum(x(n, first + i, *place) * w(block, i, *taps, lane), axis=axes)

        tiles = te.compute((result[0], groups * blocks, *plane, lanes), element, name="product")

        def unpack(n: Any, c: Any, row: Any, column: Any) -> Any:
            if within == blocks * lanes:
                return tiles(n, c // lanes, row, column, c % lanes)
            own = c % within
            return tiles(n, (c // within) * blocks + own // lanes, row, column, own % lanes)

        return te.compute(tuple(result), unpack, name="unpack")

    constant = op.graph.constant(op["weight"])
    if constant is not None:
        packed = op.graph.packed(
            constant.reshape(filters), lanes, lambda w, n: register_tiles.in_lanes(w, n, groups)
        )
    else:
        packed = _packed(op, filters, within, lanes)
    return op.graph.emit(function, [source, packed], "convolution", OUT_ELEMENTWISE_FUSABLE)


def _packed(op: Operation, filters: Sequence[int], within: int, lanes: int) -> Any:
    """The same of filters that are known at each call only."""
    from tvm import tirx

    channels, *others = filters
    blocks = -(-within // lanes)
    nothing = scalar_math.const(0, op.dtype)

    def element(w: Any, index: Any) -> Any:
        block, *place, lane = index
        own = (block % blocks) * lanes + lane
        value = w((block // blocks) * within + own, *place)
        return (
            value if within == blocks * lanes else tirx.if_then_else(own < within, value, nothing)
        )

    value = op.graph.reshape(op["weight"], filters)
    shape = (channels // within * blocks, *others, lanes)
    return op.graph.compute(shape, op.dtype, element, [value], "pack")


def _depthwise(
    op: Operation, source: Any, filters: Sequence[int], window: _Window, result: Sequence[int]
) -> Any:
    from tvm import te

    def function(x: Any, w: Any) -> Any:
        axes = _axes(window.kernel)
        taps = [axis.var for axis in axes]

        def element(n: Any, c: Any, row: Any, column: Any) -> Any:
            return te.sum(x(n, c, *window.under([row, column], taps)) * w(c, 0, *taps), axis=axes)

        return te.compute(tuple(result), element, name="depthwise")

    weight = op.graph.reshape(op["weight"], filters)
    return op.graph.emit(function, [source, weight], "depthwise", OUT_ELEMENTWISE_FUSABLE)


def _pooled(
    op: Operation,
    window: _Window,
    kind: str,
    finish: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> Any:
    """The largest, or the sum, of each window, and what ``finish`` makes of it at its place."""
    from tvm import te, topi

    shape, result = shape_of(op["self"]), op.shape[-2:]
    sizes, before = [math.prod(shape[:-2]), *shape[-2:]], [0, *window.padding]
    # A last window may reach beyond the far margin.
    last = window.under([size - 1 for size in result], [size - 1 for size in window.kernel])
    after = [max(end + 1 - s - p, 0) for s, p, end in zip(sizes, before, [0, *last], strict=True)]
    filler = scalar_math.const(-math.inf if kind == "max" else 0, op.dtype)

    def function(x: Any) -> Any:
        wide = topi.nn.pad(x, before, after, filler) if any((*before, *after)) else x
        axes = _axes(window.kernel)

        def element(n: Any, *place: Any) -> Any:
            own = wide(n, *window.under(place, [axis.var for axis in axes]))
            return reducer(kind)(scalar_math.cast(own, op.dtype), axis=axes)

        pooled = te.compute((sizes[0], *result), element, name="window")
        if finish is None:
            return pooled
        return te.compute(pooled.shape, lambda *i: finish(pooled(*i), i[1:]), name="average")

    source = op.graph.reshape(op["self"], sizes)
    return op.reshaped(op.graph.emit(function, [source], op.name))


@converts("max_pool2d_with_indices.default")
def _max_pool(op: Operation) -> Any:
    if any(used(op.node)):
        op.refuse("The places of the largest")
    if not op.dtype.startswith("float"):
        op.refuse("The largest of whole numbers")
    return [_pooled(op, _Window.of(op, op["kernel_size"]), "max")]


@converts("avg_pool2d.default")
def _avg_pool(op: Operation) -> Any:
    if op["ceil_mode"]:
        op.refuse("An average over windows that reach beyond the margin")
    window = _Window.of(op, op["kernel_size"])
    whole = op["count_include_pad"] or not any(window.padding)
    divisor = op["divisor_override"] or (math.prod(window.kernel) if whole else 0)
    sizes = shape_of(op["self"])[-2:]

    def covered(place: Any, d: int) -> Any:
        from tvm import tirx

        first = place * window.stride[d] - window.padding[d]
        last = scalar_math.at_most(first + window.kernel[d], sizes[d])
        return last - tirx.Max(first, scalar_math.zero(place))

    def mean(total: Any, place: Sequence[Any]) -> Any:
        if divisor:
            return total / scalar_math.const(divisor, op.dtype)
        return total / (covered(place[0], 0) * covered(place[1], 1)).astype(op.dtype)

    return _pooled(op, window, "sum", mean)


@converts("_adaptive_avg_pool2d.default")
def _adaptive(op: Operation) -> Any:
    sizes, result = shape_of(op["self"])[-2:], op.shape[-2:]
    if any(size % out for size, out in zip(sizes, result, strict=True)):
        op.refuse("Windows of several sizes")
    kernel = [size // out for size, out in zip(sizes, result, strict=True)]
    count = scalar_math.const(math.prod(kernel), op.dtype)
    window = _Window(kernel, kernel, [0, 0], [1, 1])
    return _pooled(op, window, "sum", lambda total, _: total / count)
