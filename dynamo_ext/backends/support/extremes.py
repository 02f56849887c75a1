"""The largest and the smallest elements with their places as two operations, for engines.

So an engine has to keep NaN, which torch takes for larger and smaller than all others, in few.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from dynamo_ext.backends.support.single_op import size, tensor_inputs

_LARGE = 2**16
"""Elements from which it takes longer to look for NaN than to go to eager and back."""


def refused(node: Node, engine: str) -> str:
    """Why an engine that passes over NaN is not given a reduction; nothing where it is."""
    first, *_ = tensor_inputs(node)
    value = first.meta["val"]
    if not value.is_floating_point() or math.prod(map(size, value.shape)) <= _LARGE:
        return ""
    return f"{engine} passes over NaN, and in so many elements it takes long to look for it."


_aten = torch.ops.aten

DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _aten.max.dim: lambda x, dim, keepdim=False: (
        _aten.amax.default(x, [dim], keepdim),
        _aten.argmax.default(x, dim, keepdim),
    ),
    _aten.min.dim: lambda x, dim, keepdim=False: (
        _aten.amin.default(x, [dim], keepdim),
        _aten.argmin.default(x, dim, keepdim),
    ),
    _aten.max.default: lambda x: _aten.amax.default(x, []),
    _aten.min.default: lambda x: _aten.amin.default(x, []),
}
"""``max`` and ``min`` over a dimension, over all of a tensor, and both at once."""
