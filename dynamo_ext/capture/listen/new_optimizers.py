"""Optimizers that a cell makes again in each run: the steps of later ones stay Python.

What Dynamo captures of an optimizer's step serves that optimizer alone. A function that makes its
own would have the step captured again in each call, which takes as long as thousands of steps gain.
"""

import types
from typing import Any
from weakref import WeakSet

from torch.optim import Optimizer

from dynamo_ext.capture.events.capture_disabled import of_run
from dynamo_ext.capture.listen.run_log import RunLog
from dynamo_ext.capture.torch_private import code_cache

_REMEDY = (
    "Make the optimizer in a cell of its own to have its steps captured; --capture all has them "
    "captured all the same."
)
_AROUND_STEP = Optimizer.profile_hook_step.__qualname__

_captured: dict[tuple[str | None, types.CodeType, type], WeakSet[Optimizer]] = {}
"""Those that live, by the cell, which of torch's functions was captured, and their class."""
code_cache.learned.append(_captured)


def note_captured(frame: Any, run: RunLog) -> None:
    """Keep the optimizer whose step is captured in a frame, if it is one."""
    if (optimizer := _optimizer(frame)) is not None:
        key = run.cell_file, frame.f_code, type(optimizer)
        _captured.setdefault(key, WeakSet()).add(optimizer)


def stays_python(frame: Any, run: RunLog) -> bool:
    """Whether a frame is a step of an optimizer, and those captured before in the cell are gone."""
    optimizer = _optimizer(frame) if run.decides else None
    live = _captured.get((run.cell_file, frame.f_code, type(optimizer)))
    if live is None or live:
        return False
    why = (
        f"Steps of `{type(optimizer).__name__}` run in Python: the cell makes a new optimizer each "
        "time it runs, for which they would be captured again"
    )
    run.fallbacks[of_run(why, _REMEDY, harmless=True)] = None
    return True


def _optimizer(frame: Any) -> Optimizer | None:
    """The optimizer whose ``step``, or torch's function around it, is called."""
    code = frame.f_code
    if code.co_name == "step":
        first = frame.f_locals.get("self")
    elif code.co_name == "wrapper" and code.co_qualname.startswith(_AROUND_STEP):
        # The code that goes on after a graph break in it has other arguments.
        first = next(iter(frame.f_locals.get("args", ())), None)
    else:
        return None
    return first if isinstance(first, Optimizer) else None
