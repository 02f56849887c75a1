"""The largest and the smallest elements with their places as two operations, for engines.

So an engine has to keep NaN, which torch takes for larger and smaller than all others, in few.
"""

from collections.abc import Callable
from typing import Any

import torch


def decompositions() -> dict[Any, Callable[..., Any]]:
    """``max`` and ``min`` over a dimension, over all of a tensor, and both at once."""
    aten = torch.ops.aten

    def along(value: Any, place: Any) -> Callable[..., Any]:
        def cut(x: Any, dim: int, keepdim: bool = False) -> Any:  # noqa: FBT001, FBT002 - ATen's own
            return value(x, [dim], keepdim), place(x, dim, keepdim)

        return cut

    return {
        aten.max.dim: along(aten.amax.default, aten.argmax.default),
        aten.min.dim: along(aten.amin.default, aten.argmin.default),
        aten.max.default: lambda x: aten.amax.default(x, []),
        aten.min.default: lambda x: aten.amin.default(x, []),
    }
