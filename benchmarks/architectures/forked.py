"""A function in a forked process, so that a crash or a hang costs one answer.

Importing torch, transformers and Dynamo takes longer than most of what is asked: the process that
is forked has imported them, and has started neither a thread nor an engine.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import resource
import select
import signal
import time
import warnings
from typing import TYPE_CHECKING, Any

from benchmarks.workers import Bounds, ending

if TYPE_CHECKING:
    from collections.abc import Callable

_GIB = 1 << 30
_COMMON = (
    "torch._dynamo",
    "transformers.models.auto.modeling_auto",
    "transformers.models.bart.modeling_bart",
    "transformers.models.bert.modeling_bert",
    "transformers.models.llama.modeling_llama",
    "dynamo_ext.api.optimize",
)


def prepare() -> None:
    """Import what most architectures and every engine need."""
    import torch

    for module in _COMMON:
        importlib.import_module(module)
    torch.set_num_threads(1)
    logging.getLogger("transformers").setLevel(logging.ERROR)


def answer(function: Callable[[], dict[str, Any]], bounds: Bounds) -> dict[str, Any] | str:
    """What a function gives in a forked process, or why there is nothing.

    Parameters
    ----------
    function
        Gives plain values.
    bounds
        ``memory`` is that of addresses.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            _settle(bounds)
            with os.fdopen(writing, "w") as out:
                out.write(json.dumps(_told(function)))
        finally:
            os._exit(0)
    os.close(writing)
    said, late = _read(reading, bounds.seconds)
    os.close(reading)
    if late:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if late:
        return f"It had no result after {bounds.seconds:.0f} s."
    if not said:
        return ending(code, "")
    found: dict[str, Any] | str = json.loads(said)
    return found


def _settle(bounds: Bounds) -> None:
    os.setsid()
    most = int(bounds.memory * _GIB)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.simplefilter("ignore")


def _told(function: Callable[[], dict[str, Any]]) -> dict[str, Any] | str:
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {' '.join(lines[:2])[:240]}"


def _read(stream: int, seconds: float) -> tuple[bytes, bool]:
    """All that comes until the end, and whether that did not come in time."""
    deadline = time.monotonic() + seconds
    said = b""
    while True:
        if not select.select([stream], [], [], max(deadline - time.monotonic(), 0.0))[0]:
            return said, True
        part = os.read(stream, 1 << 16)
        if not part:
            return said, False
        said += part
