"""Garbage collections that pass by all older objects, of which a worker has millions."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def older_objects_frozen() -> Iterator[None]:
    """Within the block, collections go through what was made in it."""
    gc.freeze()
    number = gc.get_freeze_count()
    try:
        # Python counts them one by one, and each trace asks.
        with mock.patch.object(gc, "get_freeze_count", return_value=number):
            yield
    finally:
        gc.unfreeze()
