"""Torch's own reasons to skip CUDA graphs."""

import contextlib
import logging
from collections.abc import Iterator


def plain_skip(message: str) -> str:
    """A skip's reason, without the words (at times doubled) before it and the trace after it."""
    prefix = "skipping cudagraphs due to "
    text = message.partition("Found from")[0].strip().rstrip(".")
    while text.startswith(prefix):
        text = text.removeprefix(prefix).strip()
    return text


def cudagraph_skips() -> int:
    """How many graphs torch's CUDA graphs have skipped in this process."""
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["cudagraph_skips"])


@contextlib.contextmanager
def cudagraph_reasons() -> Iterator[list[str]]:
    """The reasons that torch logs for its skips, collected, and kept from being printed."""
    found: list[str] = []

    class Collect(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            message = record.getMessage()
            if "skipping cudagraphs" not in message:
                return True
            found.append(plain_skip(message))
            return False

    logger = logging.getLogger("torch._inductor.cudagraph_utils.__cudagraphs")
    collect = Collect()
    logger.addFilter(collect)
    try:
        yield found
    finally:
        logger.removeFilter(collect)
