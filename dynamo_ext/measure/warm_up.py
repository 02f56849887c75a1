"""Calling on until a backend has settled which form of its graphs it runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def settle(backend: Any, call: Callable[[], object], seconds: float) -> None:
    """Call until ``backend.unsettled_calls`` no longer changes, for ``seconds`` at most.

    Not at all where the backend or compiler has no such count.
    """
    until = time.perf_counter() + seconds
    seen = 0
    while (calls := getattr(backend, "unsettled_calls", 0)) != seen and time.perf_counter() < until:
        seen = calls
        call()
