"""Torch's CUDA graphs: where they read weights, and why they are skipped."""

import contextlib
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

from dynamo_ext.backends.torch_private import aot

_PATCHING = threading.RLock()
"""Graphs are compiled in calls, too, where Dynamo's own lock is not held."""


@contextlib.contextmanager
def weights_in_place() -> Iterator[None]:
    """Have the CUDA graphs that are made inside read weights where they lie.

    Torch's backend fixes the addresses of what AOTAutograd adds alone, and copies all else at each
    call; Dynamo gives weights as inputs. Where an address changes, torch records again.
    """
    from torch._inductor import cudagraph_trees

    with _PATCHING:
        make = cudagraph_trees.cudagraphify_impl

        def with_weights(run: Any, inputs: Any, fixed: Sequence[int], **facts: Any) -> Any:
            if not facts.get("is_backward"):
                fixed = sorted({*fixed, *aot.static_inputs()})
            return make(run, inputs, fixed, **facts)

        with mock.patch.object(cudagraph_trees, "cudagraphify_impl", with_weights):
            yield


def plain_skip(message: str) -> str:
    """A skip's reason, without the words (at times doubled) before it and the trace after it."""
    text = message.partition("Found from")[0].strip().rstrip(".")
    return re.sub(r"^(skipping cudagraphs due to\s*)+", "", text)


def cudagraph_skips() -> int:
    """How many graphs torch's CUDA graphs have skipped in this process."""
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["cudagraph_skips"])


@contextlib.contextmanager
def cudagraph_reasons() -> Iterator[list[str]]:
    """The reasons that torch logs for its skips, collected, and kept from being printed."""
    found: list[str] = []

    def collect(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if "skipping cudagraphs" not in message:
            return True
        found.append(plain_skip(message))
        return False

    logger = logging.getLogger("torch._inductor.cudagraph_utils.__cudagraphs")
    logger.addFilter(collect)
    try:
        yield found
    finally:
        logger.removeFilter(collect)
