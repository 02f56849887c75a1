"""Interrupts in tests, however the run was started."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have SIGINT interrupt, as it does in a kernel's cell.

    A run that a shell has started in the background ignores it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
