"""The answer of another process that measured a candidate."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynamo_ext.errors import OptionError
from dynamo_ext.measure.remote.tasks import REMEDY, Task
from dynamo_ext.records.comparison import Comparison


@dataclass(frozen=True)
class Answer:
    """A record of the baseline and one candidate, or why there is none.

    ``error`` is what the code itself raised, to be raised again where it was asked for.
    ``stopped`` says that nothing is wrong, it was only not its turn; ``ended`` that the process
    died or had to be stopped.
    """

    record: Comparison | None = None
    reason: str = ""
    remedy: str = ""
    worker: str = ""
    error: Exception | None = None
    stopped: bool = False
    ended: bool = False


def read(answer: Mapping[str, Any], task: Task) -> Answer:
    """From what ``worker.measure`` gave back."""
    worker = str(answer["worker"])
    if "comparison" in answer:
        return Answer(Comparison.from_dict(answer["comparison"]), worker=worker)
    reason, remedy = str(answer["reason"]), str(answer["remedy"])
    error = _error(answer, task) if "raised" in answer else None
    return Answer(None, reason, remedy, worker, error)


def _error(answer: Mapping[str, Any], task: Task) -> Exception:
    missing = answer["missing"]
    if missing in task.left_out:
        why = task.left_out[missing]
        message = f"The cell reads {missing}, which cannot be sent to another process ({why})."
        return OptionError(message, REMEDY)
    error: Exception = RuntimeError(answer["reason"])
    if answer["raised"]:
        error = pickle.loads(answer["raised"])  # noqa: S301 - from a worker that runs our code
    error.add_note(f"In another process:\n{answer['trace']}")
    return error
