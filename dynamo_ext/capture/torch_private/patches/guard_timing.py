"""The time that checking a frame's guards takes: torch measures it at every compile."""

import logging
from collections.abc import Callable
from typing import Any

from torch._dynamo import guards

from dynamo_ext.capture.torch_private.patches.registry import patches


@patches(guards, "profile_guard_manager")
def guard_latency(upstream: Callable[..., float], *arguments: Any) -> float:
    """Measure it only where its log is read: torch overwrites caches for it, which takes 20 ms."""
    return upstream(*arguments) if guards.guards_log.isEnabledFor(logging.DEBUG) else 0.0
