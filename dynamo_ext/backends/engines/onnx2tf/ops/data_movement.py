"""ONNX's operations that move elements about, in TensorFlow."""

from typing import Any

import numpy as np

from dynamo_ext.backends.engines.onnx2tf.ops.onnx_node import Call, converts, sizes


@converts("Cast")
def _cast(call: Call) -> Any:
    import onnx_ir

    return call.tf.cast(call.tensor(0), call.tf.as_dtype(onnx_ir.DataType(call.get("to")).numpy()))


@converts("Reshape")
def _reshape(call: Call) -> Any:
    value = call.tensor(0)
    shape, former = call.known(1), sizes(value)
    if not call.get("allowzero", 0):
        shape = [size or former[place] for place, size in enumerate(shape)]
    return call.tf.reshape(value, shape)


@converts("Unsqueeze")
def _unsqueeze(call: Call) -> Any:
    value = call.tensor(0)
    axes = call.known(1, [])
    rank = value.shape.rank + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        value = call.tf.expand_dims(value, axis)
    return value


@converts("Expand")
def _expand(call: Call) -> Any:
    tf, value = call.tf, call.tensor(0)
    shape = tf.broadcast_static_shape(value.shape, tf.TensorShape(call.known(1)))
    return tf.broadcast_to(value, shape)


@converts("Split")
def _split(call: Call) -> Any:
    value, axis = call.tensor(0), call.get("axis", 0)
    total = sizes(value)[axis]
    count = call.get("num_outputs", len(call.outputs))
    each = -(-total // count)
    alike = [min(each, max(total - each * i, 0)) for i in range(count)]
    return call.tf.split(value, call.known(1, alike), axis)


@converts("Slice")
def _slice(call: Call) -> Any:
    value = call.tensor(0)
    starts, ends = call.known(1), call.known(2)
    axes = call.known(3, range(len(starts)))
    steps = call.known(4, [1] * len(starts))
    cuts = [slice(None)] * value.shape.rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # Python resolves bounds beyond the ends as ONNX does; a negative step may end before 0.
        first, last, step = slice(start, end, step).indices(sizes(value)[axis])  # noqa: PLW2901
        cuts[axis] = slice(first, None if last < 0 else last, step)
    return value[tuple(cuts)]


def _places(call: Call, indices: Any, total: int) -> Any:
    """Indices, the negative ones counted from the end."""
    return call.tf.where(indices < 0, indices + total, indices)


@converts("Gather")
def _gather(call: Call) -> Any:
    value, axis = call.tensor(0), call.get("axis", 0)
    places = _places(call, call.inputs[1], sizes(value)[axis])
    return call.tf.gather(value, places, axis=axis)


def _coordinates(call: Call, indices: Any, axis: int, shape: list[int]) -> Any:
    """For indices along one axis: all the coordinates of each element."""
    tf = call.tf
    ranges = [tf.range(count, dtype=indices.dtype) for count in sizes(indices)]
    grid = tf.meshgrid(*ranges, indexing="ij")
    grid[axis] = _places(call, indices, shape[axis])
    return tf.stack(grid, axis=-1)


@converts("GatherElements")
def _gather_elements(call: Call) -> Any:
    value, indices = call.tensor(0), call.tensor(1)
    where = _coordinates(call, indices, call.get("axis", 0), sizes(value))
    return call.tf.gather_nd(value, where)


def _whole_coordinates(call: Call, indices: Any, shape: list[int]) -> Any:
    depth = sizes(indices)[-1]
    parts = [_places(call, indices[..., i], shape[i]) for i in range(depth)]
    return call.tf.stack(parts, axis=-1)


@converts("GatherND")
def _gather_nd(call: Call) -> Any:
    value = call.tensor(0)
    where = _whole_coordinates(call, call.tensor(1), sizes(value))
    return call.tf.gather_nd(value, where, batch_dims=call.get("batch_dims", 0))


_SCATTERS = {"none": "tensor_scatter_nd_update", "add": "tensor_scatter_nd_add"}


@converts("ScatterElements", "ScatterND")
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


@converts("Pad")
def _pad(call: Call) -> Any:
    tf, value = call.tf, call.tensor(0)
    if call.get("mode", "constant") != "constant":
        call.refuse(f"mode {call.get('mode')}")
    pads, rank = call.known(1), value.shape.rank
    axes = call.known(3, range(rank))
    both = [(0, 0)] * rank
    for place, axis in enumerate(axes):
        both[axis] = (pads[place], pads[place + len(axes)])
    # Negative padding cuts off.
    cut = tuple(
        slice(-min(low, 0), size + min(high, 0))
        for size, (low, high) in zip(sizes(value), both, strict=True)
    )
    more = [(max(low, 0), max(high, 0)) for low, high in both]
    filler = tf.reshape(call.tensor(2), []) if call.has(2) else 0
    return tf.pad(value[cut], more, constant_values=filler)


@converts("ConstantOfShape")
def _constant_of_shape(call: Call) -> Any:
    value = call.get("value")
    array = np.zeros(1, np.float32) if value is None else np.asarray(value)
    return call.tf.fill(call.known(0), call.tf.constant(array.reshape(-1)[0], array.dtype))
