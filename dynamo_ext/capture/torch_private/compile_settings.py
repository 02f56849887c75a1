"""Dynamo's lock, settings and logs, for as long as a frame of ours compiles."""

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo as dynamo
from torch._dynamo import convert_frame

compile_lock = convert_frame.compile_lock
"""What torch itself holds while a frame compiles; a thread may take it again."""


heard_bytecode = convert_frame.register_bytecode_hook
"""A block in which a hook gets the code of each frame that is compiled, and what it became."""


def capture_settings(**more: Any) -> contextlib.AbstractContextManager[Any]:
    """Torch's settings as a cell needs them, and ``more``, for as long as a frame is captured.

    Errors are raised, to distinguish interruptions. Traced NumPy has other random numbers, aliasing
    and warnings. Symbolic floats come back stale from Inductor, in float32 from AOTAutograd
    (2.13.0). A hook that is added to a module later is to run. ``addcmul_`` and its like,
    decomposed, take eager four times as long. Torch 2.11 takes a list that is a default (`kept=[]`)
    for a constant. A log of side effects that is not read is not written: that takes
    a fifth of a small cell's capture.
    """
    settings: contextlib.AbstractContextManager[Any] = dynamo.config.patch(
        suppress_errors=False,
        trace_numpy=False,
        specialize_float=True,
        skip_nnmodule_hook_guards=False,
        skip_guards_on_constant_func_defaults=False,
        enable_dynamo_decompositions=False,
        side_effect_replay_policy=_side_effect_policy(),
        **_OFF,
        **more,
    )
    return settings


# Torch's cache of compiled frames refuses code without a module, as a cell is. In torch 2.11,
# guards that know a dictionary by its tag have ended processes.
_OFF: dict[str, Any] = {
    name: False
    for name in ("caching_precompile", "use_recursive_dict_tags_for_guards")
    if hasattr(dynamo.config, name)
}


def _side_effect_policy() -> str:
    policy: str = dynamo.config.side_effect_replay_policy
    logged = _SIDE_EFFECTS.isEnabledFor(logging.DEBUG) or "TORCH_TRACE" in os.environ
    return "silent" if policy == "info" and not logged else policy


_SIDE_EFFECTS = logging.getLogger("torch._dynamo.side_effects.__side_effects")
TORCH = str(Path(torch.__file__).parent)
_LOUD = ("torch._", "torch.fx.experimental.symbolic_shapes", "torch.utils.cpp_extension")


@contextlib.contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep torch's warnings about compiling off stderr; ``TORCH_LOGS`` output still passes."""
    shown = warnings.showwarning

    def show_unless_torch(*about: Any, **more: Any) -> None:
        _, _, filename, *_ = about
        if not str(filename).startswith(TORCH):
            shown(*about, **more)

    def drop(record: logging.LogRecord) -> bool:
        return record.levelno < logging.WARNING

    # Inductor imports this one, which warns that there is a CUDA compiler and no CUDA device.
    logging.getLogger(_LOUD[-1])
    loggers = [
        logger
        for name, logger in list(logging.Logger.manager.loggerDict.items())
        if name.startswith(_LOUD) and isinstance(logger, logging.Logger)
    ]
    for logger in loggers:
        logger.addFilter(drop)
    warnings.showwarning = show_unless_torch
    try:
        yield
    finally:
        warnings.showwarning = shown
        for logger in loggers:
            logger.removeFilter(drop)
