"""Calls whose inputs calibrate int8: from them engines take the ranges of activations.

Products with constant weights need none: their activations are rounded by each call's own range.
For convolutions that would cost more than it gains.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

MOST_CALLS = 32
"""Calls whose inputs a partition keeps until it is compiled; later ones calibrate nothing."""

FIRST, FACTOR = 16, 8
"""A calibrated engine is checked again after so many calls, and then after so many times as many:
later data may leave the ranges."""

_entered: list[None] = []


def is_active() -> bool:
    """Whether calls calibrate at this moment."""
    return bool(_entered)


class calibrating:  # noqa: N801 - a context, as torch.no_grad
    """Calls in this context calibrate int8: code that is compiled for it runs in eager.

    The first call after it compiles, and knows the ranges of activations from up to 32 calls.
    Inputs should be of one size: a graph for another one knows nothing of them. What was compiled
    before stays as it is. It holds in all threads; compiled code cannot enter it::

        compiled = torch.compile(model, backend="dx_openvino", options={"precision": "int8"})
        with torch.no_grad():
            with dynamo_ext.calibrating():
                for batch in batches:
                    compiled(batch)
            compiled(x)
    """

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __enter__(self) -> None:
        _entered.append(None)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __exit__(self, *details: object) -> None:
        _entered.pop()


def counted(run: Callable[..., Sequence[Any]], due: Callable[[], None]) -> Any:
    """``run``, which calls ``due`` where the call after this one is to be checked."""
    made, last = 0, FIRST

    def call(*inputs: Any) -> Sequence[Any]:
        nonlocal made, last
        made += 1
        if made >= last:
            last *= FACTOR
            due()
        return run(*inputs)

    return call
