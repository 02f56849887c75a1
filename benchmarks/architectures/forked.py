"""A function in a forked process, so that a crash or a hang costs one answer.

Importing torch, transformers and Dynamo takes longer than most of what is asked: the process that
is forked has imported them, and has started neither a thread nor an engine.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import multiprocessing
import os
import resource
import warnings
from typing import TYPE_CHECKING, TypeVar

from benchmarks.workers import Bounds, ending

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

R = TypeVar("R")

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


def answer(function: Callable[[], R], bounds: Bounds) -> R | str:
    """The row that a function gives in a forked process, or why there is nothing.

    Parameters
    ----------
    function
        Gives what can be sent from one process to another.
    bounds
        ``memory`` is that of addresses.
    """
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe(duplex=False)
    child = context.Process(target=_tell, args=(function, writing, bounds))
    child.start()
    # Only the child holds its end of the pipe: reading then fails once the child has died.
    writing.close()
    found: R | str | None = None
    with reading, contextlib.suppress(EOFError):
        late = not reading.poll(bounds.seconds)
        found = f"It had no result after {bounds.seconds:.0f} s." if late else reading.recv()
    if late:
        child.kill()
    child.join()
    return ending(child.exitcode or 0, "") if found is None else found


def _tell(function: Callable[[], object], writing: Connection, bounds: Bounds) -> None:
    try:
        _settle(bounds)
        writing.send(_told(function))
    finally:
        # Engines' threads are not waited for.
        os._exit(0)


def _settle(bounds: Bounds) -> None:
    os.setsid()
    most = int(bounds.memory * _GIB)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.simplefilter("ignore")


def _told(function: Callable[[], object]) -> object:
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {' '.join(lines[:2])[:240]}"
