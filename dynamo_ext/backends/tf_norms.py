"""ONNX's normalisations, in TensorFlow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.tf_arithmetic import wide
from dynamo_ext.backends.tf_call import Call, operator, sizes

if TYPE_CHECKING:
    from collections.abc import Sequence


def normalised(call: Call, value: Any, axes: Sequence[int]) -> Any:
    """A value less its mean, over its deviation; in float32 at least, as torch computes it."""
    tf = call.tf
    value = wide(tf, value)
    mean = tf.reduce_mean(value, axis=axes, keepdims=True)
    variance = tf.reduce_mean(tf.square(value - mean), axis=axes, keepdims=True)
    epsilon = tf.cast(call.get("epsilon", 1e-5), value.dtype)
    return (value - mean) * tf.math.rsqrt(variance + epsilon)


@operator("LayerNormalization")
def _layer_norm(call: Call) -> Any:
    if call.reads(1) or call.reads(2):
        call.refuse("its statistics")
    tf, value = call.tf, call.tensor(0)
    rank = value.shape.rank
    found = normalised(call, value, list(range(call.get("axis", -1) % rank, rank)))
    found = found * tf.cast(call.tensor(1), found.dtype)
    found = found + tf.cast(call.tensor(2), found.dtype) if call.has(2) else found
    return tf.cast(found, value.dtype)


def _along_channels(call: Call, position: int, value: Any) -> Any:
    """A vector, one number a channel, so that it broadcasts against a value."""
    vector = call.tensor(position)
    vector = call.tf.reshape(vector, [1, -1] + [1] * (value.shape.rank - 2))
    return call.tf.cast(vector, value.dtype)


@operator("InstanceNormalization", "GroupNormalization")
def _group_norm(call: Call) -> Any:
    tf, value = call.tf, call.tensor(0)
    shape = sizes(value)
    groups = call.get("num_groups", shape[1])
    each = math.prod(shape[1:]) // groups
    found = normalised(call, tf.reshape(value, [shape[0], groups, each]), [2])
    found = tf.reshape(found, shape)
    found = found * _along_channels(call, 1, found) + _along_channels(call, 2, found)
    return tf.cast(found, value.dtype)


@operator("BatchNormalization")
def _batch_norm(call: Call) -> Any:
    if call.get("training_mode", 0):
        call.refuse("training_mode")
    tf, value = call.tf, call.tensor(0)
    full = wide(tf, value)
    scale, bias, mean, variance = (_along_channels(call, i, full) for i in (1, 2, 3, 4))
    epsilon = tf.cast(call.get("epsilon", 1e-5), full.dtype)
    factor = scale * tf.math.rsqrt(variance + epsilon)
    return tf.cast((full - mean) * factor + bias, value.dtype)
