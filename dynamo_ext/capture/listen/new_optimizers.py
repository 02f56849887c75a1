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


def stays_python(frame: Any, run: RunLog) -> bool:
    """Whether a frame is a step of an optimizer, and those before it in the cell are gone."""
    optimizer = _optimizer(frame)
    if optimizer is None:
        return False
    kind = type(optimizer)
    key = run.cell_file, frame.f_code, kind
    if not (run.decides and key in _captured) or _captured[key]:
        _captured.setdefault(key, WeakSet()).add(optimizer)
        return False
    why = (
        f"Steps of `{kind.__name__}` run in Python: the cell makes a new optimizer each time it "
        "runs, for which they would be captured again"
    )
    run.fallbacks[of_run(why, _REMEDY, harmless=True)] = None
    return True


def _optimizer(frame: Any) -> Optimizer | None:
    """The optimizer whose ``step``, or torch's function around it, is called."""
    names, code = frame.f_locals, frame.f_code
    first = names.get("self") if code.co_name == "step" else None
    if code.co_name == "wrapper" and code.co_qualname.startswith(_AROUND_STEP):
        # The code that goes on after a graph break in it has other arguments.
        first = next(iter(names.get("args", ())), None)
    return first if isinstance(first, Optimizer) else None
