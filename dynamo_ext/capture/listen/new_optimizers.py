"""Optimizers that a cell makes again in each run: the steps of later ones stay Python.

What Dynamo captures of an optimizer's step serves that optimizer alone. A function that makes its
own would have the step captured again in each call, for the few steps that it makes.
"""

import types
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from torch.optim import Optimizer

from dynamo_ext.capture.events.capture_disabled import of_run
from dynamo_ext.capture.listen.run_log import RunLog
from dynamo_ext.capture.torch_private import code_cache

FEW = 1_000
"""With fewer steps, capturing them has never paid: it takes a hundred milliseconds and more."""

_REMEDY = (
    "Make the optimizer in a cell of its own to have its steps captured; --capture all has them "
    "captured all the same."
)


@dataclass
class _Captured:
    """Those optimizers for which steps were captured that live, and the most steps of a run."""

    live: WeakSet[Optimizer] = field(default_factory=WeakSet)
    steps: int = 0


_captured: dict[tuple[str | None, types.CodeType, type], _Captured] = {}
"""By the cell, which of torch's functions it is, and the class of the optimizer."""
code_cache.learned.append(_captured)


def stays_python(frame: Any, run: RunLog) -> bool:
    """Whether a frame is a step of an optimizer whose predecessors in the cell made few steps."""
    optimizer = _optimizer(frame)
    if optimizer is None:
        return False
    code, kind = frame.f_code, type(optimizer)
    key = run.cell_file, code, kind
    known = _captured.get(key)
    if known is None:
        known = _captured[key] = _Captured()
    elif run.decides and not known.live and max(known.steps, _steps(code, run)) < FEW:
        return _note(kind, run)
    known.live.add(optimizer)
    return False


def _note(kind: type, run: RunLog) -> bool:
    why = (
        f"Steps of `{kind.__name__}` run in Python: the cell makes a new optimizer each time it "
        "runs, for which they would be captured again"
    )
    run.fallbacks[of_run(why, _REMEDY, harmless=True)] = None
    return True


def note_steps(run: RunLog) -> None:
    """Keep how many steps a run has made with what was captured."""
    for (cell, code, _), known in _captured.items():
        if cell == run.cell_file:
            known.steps = max(known.steps, _steps(code, run))


def _steps(code: types.CodeType, run: RunLog) -> int:
    counts = (calls.count for graph, calls in run.calls.items() if graph.frame.code() is code)
    return max(counts, default=0)


def _optimizer(frame: Any) -> Optimizer | None:
    """The optimizer whose ``step``, or torch's function around it, is called."""
    names, code = frame.f_locals, frame.f_code
    if code.co_name == "step":
        first = names.get("self")
    elif code.co_name == "wrapper" and code.co_qualname.startswith(_AROUND_STEP):
        # The code that goes on after a graph break in it has other arguments.
        first = next(iter(names.get("args", ())), None)
    else:
        return None
    return first if isinstance(first, Optimizer) else None


_AROUND_STEP = Optimizer.profile_hook_step.__qualname__
