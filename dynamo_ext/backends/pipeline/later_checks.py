"""When an engine is checked again: one whose numbers have ranges may be wrong for later data."""

from collections.abc import Callable, Sequence
from typing import Any

from dynamo_ext.backends.base import CompiledFn

FIRST, FACTOR = 16, 8
"""It is checked again after so many calls, and each time after so many times as many."""


def counted(run: CompiledFn, due: Callable[[], None]) -> CompiledFn:
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
