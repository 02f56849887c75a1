"""Calling on until a backend has settled which form of its graphs it runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def settle(backend: Any, call: Callable[[], object], seconds: float) -> None:
    """Call until ``backend.on_trial`` stands still; not at all where a backend has none.

    Parameters
    ----------
    backend
        A backend or its compiler; or nothing.
    call
        Runs the code, which has run before.
    seconds
        After which it is given up.
    """
    until = time.perf_counter() + seconds
    seen = 0
    while (calls := getattr(backend, "on_trial", 0)) != seen and time.perf_counter() < until:
        seen = calls
        call()
