"""ONNX's operations that move elements about, in TensorFlow."""

from __future__ import annotations

import math
from typing import Any

from dynamo_ext.backends.tf_call import Call, operator, sizes


@operator("Cast", "CastLike")
def _cast(call: Call) -> Any:
    if call.kind == "CastLike":
        return call.tf.cast(call.tensor(0), call.tensor(1).dtype)
    return call.tf.cast(call.tensor(0), dtype_of(call.tf, call.get("to")))


def dtype_of(tf: Any, number: int) -> Any:
    """TensorFlow's dtype for ONNX's number of one."""
    import onnx_ir

    return tf.as_dtype(onnx_ir.DataType(number).numpy())


@operator("Shape")
def _shape(call: Call) -> Any:
    import numpy as np

    shape = sizes(call.tensor(0))
    return np.array(shape[call.get("start", 0) : call.get("end", len(shape))], np.int64)


@operator("Size")
def _size(call: Call) -> Any:
    import numpy as np

    return np.array(math.prod(sizes(call.tensor(0))), np.int64)


@operator("Reshape")
def _reshape(call: Call) -> Any:
    value = call.tensor(0)
    shape, former = call.known(1), sizes(value)
    if not call.get("allowzero", 0):
        shape = [size or former[place] for place, size in enumerate(shape)]
    return call.tf.reshape(value, shape)


@operator("Flatten")
def _flatten(call: Call) -> Any:
    value, axis = call.tensor(0), call.get("axis", 1)
    shape = sizes(value)
    axis = axis + len(shape) if axis < 0 else axis
    return call.tf.reshape(value, [math.prod(shape[:axis]), math.prod(shape[axis:])])


@operator("Transpose")
def _transpose(call: Call) -> Any:
    return call.tf.transpose(call.tensor(0), call.get("perm"))


@operator("Squeeze")
def _squeeze(call: Call) -> Any:
    axes = call.axes(1)
    return call.tf.squeeze(call.tensor(0), axes)


@operator("Unsqueeze")
def _unsqueeze(call: Call) -> Any:
    value = call.tensor(0)
    axes = call.axes(1) or []
    rank = value.shape.rank + len(axes)
    shape = sizes(value)
    for axis in sorted(axis % rank for axis in axes):
        shape.insert(axis, 1)
    return call.tf.reshape(value, shape)


@operator("Expand")
def _expand(call: Call) -> Any:
    tf, value = call.tf, call.tensor(0)
    shape = tf.broadcast_static_shape(value.shape, tf.TensorShape(call.known(1)))
    return tf.broadcast_to(value, shape)


@operator("Concat")
def _concat(call: Call) -> Any:
    values = [call.tensor(i) for i in range(len(call.inputs))]
    return call.tf.concat(values, call.get("axis"))


@operator("Split")
def _split(call: Call) -> Any:
    value, axis = call.tensor(0), call.get("axis", 0)
    total = sizes(value)[axis]
    if call.has(1):
        parts = call.known(1)
    else:
        count = call.get("num_outputs", len(call.outputs))
        each = -(-total // count)
        parts = [min(each, max(total - each * i, 0)) for i in range(count)]
    return call.tf.split(value, parts, axis)


@operator("Slice")
def _slice(call: Call) -> Any:
    value = call.tensor(0)
    starts, ends = call.known(1), call.known(2)
    axes = call.known(3) if call.has(3) else list(range(len(starts)))
    steps = call.known(4) if call.has(4) else [1] * len(starts)
    cuts = [slice(None)] * value.shape.rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # Python resolves bounds beyond the ends as ONNX does; a negative step may end before 0.
        first, last, step = slice(start, end, step).indices(sizes(value)[axis])  # noqa: PLW2901
        cuts[axis] = slice(first, None if last < 0 else last, step)
    return value[tuple(cuts)]


def _places(call: Call, indices: Any, total: int) -> Any:
    """Indices, of which one beyond the ends raises the alarm.

    Negative ones too: ONNX would count them from the end, and of torch's operations only those
    do that ``tf_session.prepare`` has counted already.
    """
    import numpy as np

    tf = call.tf
    if isinstance(indices, np.ndarray):
        return tf.convert_to_tensor(np.where(indices < 0, indices + total, indices))
    call.alarms.append(tf.reduce_any(tf.logical_or(indices < 0, indices >= total)))
    return indices


@operator("Gather")
def _gather(call: Call) -> Any:
    value, axis = call.tensor(0), call.get("axis", 0)
    places = _places(call, call.inputs[1], sizes(value)[axis])
    return call.tf.gather(value, places, axis=axis)


def _coordinates(call: Call, indices: Any, axis: int, shape: list[int]) -> Any:
    """For indices along one axis: all the coordinates of each element."""
    tf = call.tf
    own = sizes(indices)
    axis %= len(own)
    grid = []
    for dim, count in enumerate(own):
        if dim == axis:
            grid.append(_places(call, indices, shape[axis]))
            continue
        along = [1] * len(own)
        along[dim] = count
        grid.append(tf.broadcast_to(tf.reshape(tf.range(count, dtype=indices.dtype), along), own))
    return tf.stack(grid, axis=-1)


@operator("GatherElements")
def _gather_elements(call: Call) -> Any:
    value, indices = call.tensor(0), call.tensor(1)
    where = _coordinates(call, indices, call.get("axis", 0), sizes(value))
    return call.tf.gather_nd(value, where)


def _whole_coordinates(call: Call, indices: Any, shape: list[int]) -> Any:
    depth = sizes(indices)[-1]
    parts = [_places(call, indices[..., i], shape[i]) for i in range(depth)]
    return call.tf.stack(parts, axis=-1)


@operator("GatherND")
def _gather_nd(call: Call) -> Any:
    value = call.tensor(0)
    where = _whole_coordinates(call, call.tensor(1), sizes(value))
    return call.tf.gather_nd(value, where, batch_dims=call.get("batch_dims", 0))


_SCATTERS = {
    "none": "tensor_scatter_nd_update",
    "add": "tensor_scatter_nd_add",
    "max": "tensor_scatter_nd_max",
    "min": "tensor_scatter_nd_min",
}


@operator("ScatterElements", "ScatterND")
def _scatter(call: Call) -> Any:
    how = call.get("reduction", "none")
    if how not in _SCATTERS:
        call.refuse(f"reduction {how}")
    value, indices, updates = call.tensor(0), call.tensor(1), call.tensor(2)
    if call.kind == "ScatterND":
        where = _whole_coordinates(call, indices, sizes(value))
    else:
        where = _coordinates(call, indices, call.get("axis", 0), sizes(value))
    return getattr(call.tf, _SCATTERS[how])(value, where, updates)


@operator("Pad")
def _pad(call: Call) -> Any:
    tf, value = call.tf, call.tensor(0)
    mode, pads = call.get("mode", "constant"), call.known(1)
    rank = value.shape.rank
    axes = call.known(3) if call.has(3) else list(range(rank))
    both = [(0, 0)] * rank
    for place, axis in enumerate(axes):
        both[axis] = (pads[place], pads[place + len(axes)])
    if mode == "constant":
        # Negative padding cuts off.
        cut = tuple(
            slice(-min(low, 0), size + min(high, 0))
            for size, (low, high) in zip(sizes(value), both, strict=True)
        )
        more = [(max(low, 0), max(high, 0)) for low, high in both]
        filler = tf.reshape(call.tensor(2), []) if call.has(2) else 0
        return tf.pad(value[cut], more, constant_values=filler)
    if mode not in ("reflect", "edge", "wrap"):
        call.refuse(f"mode {mode}")
    for axis, (low, high) in enumerate(both):
        if (low, high) != (0, 0):
            places = _padded_places(mode, sizes(value)[axis], low, high)
            value = tf.gather(value, places, axis=axis)
    return value


def _padded_places(mode: str, size: int, low: int, high: int) -> list[int]:
    places = []
    for place in range(-low, size + high):
        if mode == "wrap":
            places.append(place % size)
        elif mode == "edge":
            places.append(min(max(place, 0), size - 1))
        else:
            there = abs(place)
            places.append(2 * (size - 1) - there if there >= size else there)
    return places


@operator("Tile")
def _tile(call: Call) -> Any:
    return call.tf.tile(call.tensor(0), call.known(1))


@operator("Range")
def _range(call: Call) -> Any:
    import numpy as np

    (start,), (limit,), (step,) = (call.known(i) for i in range(3))
    return np.arange(start, limit, step).astype(call.inputs[0].dtype)


@operator("ConstantOfShape")
def _constant_of_shape(call: Call) -> Any:
    import numpy as np

    value = call.get("value")
    array = np.zeros(1, np.float32) if value is None else np.asarray(value)
    return call.tf.fill(call.known(0), call.tf.constant(array.reshape(-1)[0], array.dtype))


@operator("Constant")
def _constant(call: Call) -> Any:
    import numpy as np

    for name, kind in (("value_int", np.int64), ("value_float", np.float32)):
        for found in (call.get(name), call.get(f"{name}s")):
            if found is not None:
                return np.array(found, kind)
    return np.asarray(call.get("value"))


@operator("Trilu")
def _triangle(call: Call) -> Any:
    tf, value = call.tf, call.tensor(0)
    (shift,) = call.known(1) if call.has(1) else [0]
    rows, columns = sizes(value)[-2:]
    gap = tf.range(columns)[None, :] - tf.range(rows)[:, None]
    kept = gap >= shift if call.get("upper", 1) else gap <= shift
    return tf.where(kept, value, tf.zeros([], value.dtype))


@operator("TopK")
def _largest(call: Call) -> Any:
    tf, value = call.tf, call.tensor(0)
    (count,), axis = call.known(1), call.get("axis", -1)
    if not call.get("largest", 1):
        call.refuse("the smallest")
    rank = value.shape.rank
    order = [i for i in range(rank) if i != axis % rank] + [axis % rank]
    back = [order.index(i) for i in range(rank)]
    found, places = tf.math.top_k(tf.transpose(value, order), k=count)
    return [tf.transpose(found, back), tf.cast(tf.transpose(places, back), tf.int64)]


@operator("DepthToSpace", "SpaceToDepth")
def _blocks(call: Call) -> Any:
    tf, value, block = call.tf, call.tensor(0), call.get("blocksize")
    n, c, h, w = sizes(value)
    if call.kind == "SpaceToDepth":
        value = tf.reshape(value, [n, c, h // block, block, w // block, block])
        value = tf.transpose(value, [0, 3, 5, 1, 2, 4])
        return tf.reshape(value, [n, c * block * block, h // block, w // block])
    inner = c // (block * block)
    if call.get("mode", "DCR") == "DCR":
        value = tf.reshape(value, [n, block, block, inner, h, w])
        value = tf.transpose(value, [0, 3, 4, 1, 5, 2])
    else:
        value = tf.reshape(value, [n, inner, block, block, h, w])
        value = tf.transpose(value, [0, 1, 4, 2, 5, 3])
    return tf.reshape(value, [n, inner, h * block, w * block])
