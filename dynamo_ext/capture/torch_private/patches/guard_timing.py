"""The time that checking a frame's guards takes: torch measures it at every compile."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from torch._dynamo import guards

from dynamo_ext.capture.torch_private.patches.registry import patches

if TYPE_CHECKING:
    from collections.abc import Callable


@patches(guards, "profile_guard_manager")
def guard_latency(upstream: Callable[..., float], *arguments: Any) -> float:
    """Measure it only where the log that it is for is read.

    Torch overwrites the processor's caches first, which takes 20 ms: longer than all else that
    compiling a small frame takes.
    """
    return upstream(*arguments) if guards.guards_log.isEnabledFor(logging.DEBUG) else 0.0
