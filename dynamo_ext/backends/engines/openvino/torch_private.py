"""Memory of torch's that OpenVINO writes results to."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def maker(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    """What makes row-major CPU tensors of one shape: Inductor's way, in a third of the time."""
    from torch._C._dynamo.guards import _empty_strided_cpu  # type: ignore[attr-defined]

    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return functools.partial(_empty_strided_cpu, shape, tuple(reversed(strides)), dtype)
