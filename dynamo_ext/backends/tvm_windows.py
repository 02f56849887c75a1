"""Convolutions and poolings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import tvm_math
from dynamo_ext.backends.tvm_convert import (
    Walk,
    converts,
    dtype_name,
    facts,
    refuse,
    shape_of,
)
from dynamo_ext.backends.tvm_reductions import reducer
from dynamo_ext.backends.tvm_registers import channel_width, plane_tile, whole_tiles
from dynamo_ext.backends.tvm_views import padded

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch.fx import Node


def _pair(value: Any, length: int) -> list[int]:
    given = list(value) if isinstance(value, (list, tuple)) else [value]
    return [int(v) for v in (given * length if len(given) == 1 else given)]


def _packed_filters(filters: torch.Tensor, groups: int, width: int) -> torch.Tensor:
    """``(O, I, H, W)`` to ``(groups * blocks, I, H, W, width)``, each group's rest zeros."""
    import torch

    channels = filters.shape[0] // groups
    blocks = -(-channels // width)
    parts = filters.detach().reshape(groups, channels, *filters.shape[1:])
    room = [0, 0] * (filters.dim() - 1) + [0, blocks * width - channels]
    parts = torch.nn.functional.pad(parts, room)
    parts = parts.reshape(groups * blocks, width, *filters.shape[1:])
    return parts.movedim(1, -1).contiguous()


@converts("convolution.default")
def _convolution(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    if a["transposed"]:
        refuse("A transposed convolution")
    shape = [int(s) for s in facts(a["input"]).shape]
    filters = [int(s) for s in facts(a["weight"]).shape]
    result = [int(s) for s in facts(node).shape]
    kind = dtype_name(facts(node).dtype)
    spatial = len(shape) - 2
    if spatial > 2 or not kind.startswith("float"):  # noqa: PLR2004 - planes
        refuse("A convolution of volumes, or of whole numbers")
    stride, padding, dilation = (_pair(a[k], spatial) for k in ("stride", "padding", "dilation"))
    source = walk.value(a["input"])
    if spatial == 1:
        shape.insert(2, 1)
        filters.insert(2, 1)
        result.insert(2, 1)
        stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
        source = walk.reshape(source, shape)
    groups = int(a["groups"])
    window = (filters, stride, padding, dilation)
    if groups == shape[1] == filters[0] and groups > 1:
        made = _depthwise(walk, a, source, window, result)
    else:
        made = _dense(walk, a, source, window, result, groups)
    if a["bias"] is not None:
        bias = walk.value(a["bias"])
        made = walk.compute(result, kind, lambda x, b, i: x(*i) + b(i[1]), [made, bias], "bias")
    return walk.reshape(made, [int(s) for s in facts(node).shape])


def _with_margins(walk: Walk, source: Any, padding: Sequence[int]) -> Any:
    """The input with zeros around it, as a function of its own."""
    if not any(padding):
        return source
    batch, channels, height, width = shape_of(source)
    kind = str(source.ty.dtype)
    sizes = [batch, channels, height, width]
    before = [0, 0, *padding]
    full = (batch, channels, height + 2 * padding[0], width + 2 * padding[1])
    return walk.compute(
        full, kind, lambda x, i: padded(x, i, before, sizes, tvm_math.const(0, kind)), [source],
        "margins",
    )  # fmt: skip


def _dense(  # noqa: PLR0913, PLR0917 - a convolution has that many parts
    walk: Walk,
    a: dict[str, Any],
    source: Any,
    window: tuple[list[int], ...],
    result: list[int],
    groups: int,
) -> Any:
    from tvm import te, tirx

    filters, stride, padding, dilation = window
    channels, inputs, height, width = filters
    within = channels // groups
    lanes = channel_width(within)
    blocks = -(-within // lanes)
    constant = walk.constant(a["weight"])
    if constant is not None:
        packed = walk.packed(
            constant.reshape(filters), lanes, lambda w, n: _packed_filters(w, groups, n)
        )
    else:
        packed = _pack_filters(walk, a, filters, groups, lanes)
    source = _with_margins(walk, source, padding)
    tile = plane_tile(*result[2:])
    plane = [whole_tiles(size, part) for size, part in zip(result[2:], tile, strict=True)]

    def held(place: Any, d: int) -> Any:
        # Places beyond the image are its last again, and nobody reads them.
        if plane[d] == result[2 + d]:
            return place
        return tirx.Min(place, tvm_math.const(result[2 + d] - 1, tvm_math.kind(place)))

    def function(x: Any, w: Any) -> Any:
        i = te.reduce_axis((0, inputs), name="i")
        y = te.reduce_axis((0, height), name="y")
        z = te.reduce_axis((0, width), name="x")

        def element(n: Any, block: Any, row: Any, column: Any, lane: Any) -> Any:
            first = 0 if groups == 1 else (block // blocks) * inputs
            at = (
                n,
                first + i.var,
                held(row, 0) * stride[0] + y.var * dilation[0],
                held(column, 1) * stride[1] + z.var * dilation[1],
            )
            return te.sum(x(*at) * w(block, i.var, y.var, z.var, lane), axis=[i, y, z])

        tiles = te.compute((result[0], groups * blocks, *plane, lanes), element, name="product")

        def unpack(n: Any, c: Any, row: Any, column: Any) -> Any:
            if within == blocks * lanes:
                return tiles(n, c // lanes, row, column, c % lanes)
            own = c % within
            return tiles(n, (c // within) * blocks + own // lanes, row, column, own % lanes)

        return te.compute(tuple(result), unpack, name="unpack")

    return walk.emit(function, [source, packed], "convolution", anchor=True)


def _pack_filters(
    walk: Walk, a: dict[str, Any], filters: list[int], groups: int, lanes: int
) -> Any:
    from tvm import tirx

    channels, inputs, height, width = filters
    within = channels // groups
    blocks = -(-within // lanes)
    kind = dtype_name(facts(a["weight"]).dtype)
    value = walk.reshape(walk.value(a["weight"]), filters)

    def element(w: Any, index: Any) -> Any:
        block, i, y, x, lane = index
        own = (block % blocks) * lanes + lane
        channel = (block // blocks) * within + own
        if within == blocks * lanes:
            return w(channel, i, y, x)
        return tirx.if_then_else(own < within, w(channel, i, y, x), tvm_math.const(0, kind))

    shape = (groups * blocks, inputs, height, width, lanes)
    return walk.compute(shape, kind, element, [value], "pack")


def _depthwise(
    walk: Walk,
    a: dict[str, Any],
    source: Any,
    window: tuple[list[int], ...],
    result: list[int],
) -> Any:
    from tvm import te

    filters, stride, padding, dilation = window
    _, _, height, width = filters
    weight = walk.reshape(walk.value(a["weight"]), filters)
    source = _with_margins(walk, source, padding)

    def function(x: Any, w: Any) -> Any:
        y = te.reduce_axis((0, height), name="y")
        z = te.reduce_axis((0, width), name="x")

        def element(n: Any, c: Any, row: Any, column: Any) -> Any:
            own = x(
                n,
                c,
                row * stride[0] + y.var * dilation[0],
                column * stride[1] + z.var * dilation[1],
            )
            return te.sum(own * w(c, 0, y.var, z.var), axis=[y, z])

        return te.compute(tuple(result), element, name="depthwise")

    return walk.emit(function, [source, weight], "depthwise", anchor=True)


@converts("max_pool2d_with_indices.default", "avg_pool2d.default", "avg_pool1d.default")
def _pool(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    largest = "max" in str(node.target)
    if largest and {user.args[1] for user in node.users} - {0}:
        refuse("The places of the largest")
    planes = 1 if "1d" in str(node.target) else 2
    shape = [int(s) for s in facts(a["self"]).shape]
    result = [int(s) for s in facts(node).shape]
    window = _pair(a["kernel_size"], planes)
    stride = _pair(a["stride"] or a["kernel_size"], planes)
    padding = _pair(a["padding"], planes)
    dilation = _pair(a.get("dilation", 1), planes)
    if planes == 1:
        window, stride, padding, dilation = [1, *window], [1, *stride], [0, *padding], [1, 1]
        shape, result = [*shape[:-1], 1, shape[-1]], [*result[:-1], 1, result[-1]]
    lead = math.prod(shape[:-2])
    if a["ceil_mode"] and not largest:
        refuse("An average over windows that reach beyond the margin")
    source = walk.reshape(walk.value(a["self"]), (lead, *shape[-2:]))
    geometry = (shape[-2:], result[-2:], window, stride, padding, dilation)
    if largest:
        made = _largest(walk, node, source, lead, geometry)
    else:
        made = _average(walk, node, a, source, lead, geometry)
    value = walk.reshape(made, [int(s) for s in facts(node).shape])
    return [value] if largest else value


def _windows(  # noqa: PLR0913, PLR0917 - a pooling has that many parts
    x: Any, lead: int, geometry: Sequence[Sequence[int]], kind: str, filler: float, total: str
) -> Any:
    """The largest, or the sum, of each window, as a tensor expression."""
    from tvm import te

    sizes, result, window, stride, padding, dilation = geometry
    # A last window may reach beyond the far margin.
    far = [
        max(0, (r - 1) * s + (w - 1) * d + 1 - size - p)
        for r, s, w, d, size, p in zip(
            result, stride, window, dilation, sizes, padding, strict=True
        )
    ]
    wide = x
    if any(padding) or any(far):
        full = (lead, *[s + p + f for s, p, f in zip(sizes, padding, far, strict=True)])
        value = tvm_math.const(filler, kind)
        wide = te.compute(
            full,
            lambda *i: padded(x, i, [0, *padding], [lead, *sizes], value),
            name="margins",
        )
    axes = [te.reduce_axis((0, size), name=name) for size, name in zip(window, "yx", strict=True)]

    def element(n: Any, row: Any, column: Any) -> Any:
        y, z = (axis.var for axis in axes)
        own = wide(n, row * stride[0] + y * dilation[0], column * stride[1] + z * dilation[1])
        return reducer(total)(tvm_math.cast(own, kind), axis=axes)

    return te.compute((lead, *result), element, name="window")


def _largest(
    walk: Walk, node: Node, source: Any, lead: int, geometry: Sequence[Sequence[int]]
) -> Any:
    kind = dtype_name(facts(node).dtype)
    if not kind.startswith("float"):
        refuse("The largest of whole numbers")
    return walk.emit(
        lambda x: _windows(x, lead, geometry, kind, float("-inf"), "max"), [source], "max_pool"
    )


def _average(  # noqa: PLR0913, PLR0917 - a pooling has that many parts
    walk: Walk,
    node: Node,
    a: dict[str, Any],
    source: Any,
    lead: int,
    geometry: Sequence[Sequence[int]],
) -> Any:
    from tvm import te, tirx

    kind = dtype_name(facts(node).dtype)
    sizes, _, window, stride, padding, _ = geometry
    fixed = a.get("divisor_override") or (
        math.prod(window) if a["count_include_pad"] or not any(padding) else 0
    )

    def covered(place: Any, d: int) -> Any:
        first = place * stride[d] - padding[d]
        whole = tvm_math.kind(place)
        last = tirx.Min(first + window[d], tvm_math.const(sizes[d], whole))
        return last - tirx.Max(first, tvm_math.const(0, whole))

    def function(x: Any) -> Any:
        total = _windows(x, lead, geometry, kind, 0.0, "sum")

        def mean(n: Any, row: Any, column: Any) -> Any:
            if fixed:
                return total(n, row, column) / tvm_math.const(fixed, kind)
            count = covered(row, 0) * covered(column, 1)
            return total(n, row, column) / count.astype(kind)

        return te.compute(total.shape, mean, name="average")

    return walk.emit(function, [source], "avg_pool")


@converts("_adaptive_avg_pool2d.default")
def _adaptive(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    shape, result = facts(a["self"]).shape, facts(node).shape
    if any(int(size) % int(out) for size, out in zip(shape[-2:], result[-2:], strict=True)):
        refuse("Windows of several sizes")
    sizes, out = [int(s) for s in shape[-2:]], [int(s) for s in result[-2:]]
    window = [size // r for size, r in zip(sizes, out, strict=True)]
    lead = math.prod(int(s) for s in shape[:-2])
    geometry = (sizes, out, window, window, [0, 0], [1, 1])
    source = walk.reshape(walk.value(a["self"]), (lead, *sizes))
    options = {"count_include_pad": True}
    made = _average(walk, node, options, source, lead, geometry)
    return walk.reshape(made, [int(s) for s in result])
