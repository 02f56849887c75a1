"""What torch works out at every compile for its logs alone, left out where none is kept."""

from __future__ import annotations

import logging
from traceback import StackSummary
from typing import TYPE_CHECKING, Any

from torch._dynamo import config, exc, guards, side_effects, symbolic_convert
from torch._dynamo import utils as dynamo_utils
from torch._logging._internal import trace_log

from dynamo_ext.capture.torch_private.patches.registry import patches

if TYPE_CHECKING:
    from collections.abc import Callable


@patches(guards, "profile_guard_manager")
def guard_latency(upstream: Callable[..., float], *arguments: Any) -> float:
    """Do not time the guards: torch writes over the processor's caches first.

    That takes some 20 ms, longer than all else that compiling a small frame does.
    """
    return upstream(*arguments) if guards.guards_log.isEnabledFor(logging.DEBUG) else 0.0


@patches(exc, "_extract_stack_with_positions")
def callers(upstream: Callable[[], StackSummary]) -> StackSummary:
    """Do not describe every frame between the kernel's loop and the cell at each graph break."""
    read = (
        trace_log.handlers
        or config.side_effect_replay_policy != "info"
        or symbolic_convert.log.isEnabledFor(logging.DEBUG)
        or symbolic_convert.graph_break_log.isEnabledFor(logging.DEBUG)
        or side_effects.side_effects_log.isEnabledFor(logging.DEBUG)
    )
    return upstream() if read else StackSummary()


@patches(dynamo_utils, "_get_dynamo_config_for_logging")
@patches(dynamo_utils, "_scrubbed_inductor_config_for_logging")
@patches(dynamo_utils, "_compiler_config_for_logging")
@patches(dynamo_utils, "_functorch_config_for_logging")
def settings(upstream: Callable[[], str | None]) -> str | None:
    """Do not write out every setting of torch's for ``CompilationMetrics``."""
    return upstream() if trace_log.handlers else None
