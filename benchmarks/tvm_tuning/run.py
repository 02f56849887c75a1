"""One model through TVM, by rule and tuned; prints a JSON line.

``benchmarks.tvm_tuning`` starts it. With ``--start`` it only times a first call, as another kernel
would make it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import torch

import dynamo_ext
from benchmarks import one_process
from benchmarks.bounds import Bounds
from benchmarks.stored_row import ModelRow
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import Form
from dynamo_ext.backends.engines.tvm.tuning import search as tvm_tune

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.zoo.model import Built
    from dynamo_ext.api.compare import ComparisonResult

RULE, TUNED = "tvm", "tvm_meta_schedule"

STARTS = 3
"""First calls of each kind, in turn, each in a process of its own."""

START_BOUNDS = Bounds(seconds=120.0)
"""Of a process that makes a first call."""


@dataclass(frozen=True)
class Speed:
    """A speedup over eager, with its 95 % interval."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Search:
    """A model tuned from nothing known.

    Each function may have ``trials`` schedules; ``measured`` were timed for ``functions`` of
    them, and ``seconds`` is what the first call took with it.
    """

    trials: int
    functions: int
    measured: int
    seconds: float
    speed: Speed


@dataclass(frozen=True)
class Row(ModelRow):
    """One model.

    ``rule_start`` and ``known_start`` are seconds of a new process's first call: by rule, and with
    the records of the last search. A model that could not be measured has an ``error``.
    """

    model: str
    eager_seconds: float = 0.0
    rule: Speed | None = None
    searches: tuple[Search, ...] = ()
    rule_start: float = 0.0
    known_start: float = 0.0
    error: str = ""


class RowError(Exception):
    """Why a model has no row."""


class Trials:
    """How many schedules were measured for which function, in the place of the progress shown."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}

    def __call__(self, progress: tvm_tune.Progress) -> None:
        """Note a function's newest count."""
        self.counts[progress.position] = progress.trials


def measure(name: str, trials: Sequence[int], *, form: Form, budget: float, search: float) -> Row:
    """Tune a model with each number of trials, and compare what came of it in one schedule.

    Parameters
    ----------
    name
        Of a model of the zoo.
    trials
        Most schedules of a function, for each search.
    form
        At which size, and where.
    budget
        Seconds for the comparison.
    search
        Seconds for each search.
    """
    built = MODELS[name].build(form)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        try:
            databases = {f"{most} trials": str(Path(folder, str(most))) for most in trials}
            searches = {
                row: _search(built, most, search, databases[row])
                for row, most in zip(databases, trials, strict=True)
            }
            # Compiled once more, from the records: as every row is, and nothing else differs.
            known = {f"{row}.database": folder for row, folder in databases.items()}
            found = dynamo_ext.compare(
                built.module,
                built.args,
                {RULE: RULE, **dict.fromkeys(databases, TUNED)},
                kwargs=built.kwargs,
                budget=budget,
                options={**known, **{f"{row}.tune": False for row in databases}},
            )
            starts = _starts(name, [*databases.values()][-1], form=form)
            eager = found["eager"].timing
            return Row(
                name,
                eager.median if eager else 0.0,
                _speed(found, RULE),
                tuple(Search(*facts, _speed(found, row)) for row, facts in searches.items()),
                *starts,
            )
        except RowError as error:
            return Row(name, error=str(error))


def _search(built: Built, most: int, seconds: float, database: str) -> tuple[int, int, int, float]:
    """Tune a model; ``Search``'s facts without its speed."""
    options = {"trials": most, "budget": seconds, "database": database}
    fast = dynamo_ext.optimize(TUNED, options=options)(built.module)
    counted = Trials()
    started = time.perf_counter()
    with mock.patch.object(tvm_tune, "on_progress", counted):
        fast(*built.args, **built.kwargs)
    taken = time.perf_counter() - started
    failed = [each for each in fast.report().fallbacks if each.stage != "unsupported"]
    if failed:
        message = f"{most} trials: {failed[0].message}"
        raise RowError(message)
    return most, len(counted.counts), sum(counted.counts.values()), taken


def _speed(found: ComparisonResult, name: str) -> Speed:
    row = found[name]
    if row.outcome != "measured" or row.speedup is None:
        message = f"{name}: {row.outcome}. {row.reason}"
        raise RowError(message)
    return Speed(row.speedup.ratio, row.speedup.low, row.speedup.high)


def _starts(name: str, database: str, *, form: Form) -> tuple[float, float]:
    """Medians of a first call's seconds in new processes: by rule, and with what is on record."""
    taken: dict[str, list[float]] = {RULE: [], TUNED: []}
    for _ in range(STARTS):
        for backend, times in taken.items():
            words = ["--model", name, "--start", backend, *form.words]
            words += ["--database", database] if backend == TUNED else []
            answer = one_process.answer("tvm_tuning.run", words, START_BOUNDS)
            if isinstance(answer, str):
                raise RowError(answer)
            times.append(answer["seconds"])
    return statistics.median(taken[RULE]), statistics.median(taken[TUNED])


def _first_call(name: str, backend: str, database: str, *, form: Form) -> float:
    built = MODELS[name].build(form)
    options = {"database": database} if database else None
    fast = dynamo_ext.optimize(backend, options=options)(built.module)
    with torch.no_grad():
        started = time.perf_counter()
        fast(*built.args, **built.kwargs)
        return time.perf_counter() - started


def main() -> None:
    """Print the row of one model, or a first call's seconds."""
    parser = one_process.parser("One model through TVM, by rule and tuned.", 15.0)
    parser.add_argument("--trials", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--search", type=float, default=600.0)
    parser.add_argument("--start", choices=[RULE, TUNED])
    parser.add_argument("--database", default="")
    given = parser.parse_args()
    if given.start:
        seconds = _first_call(given.model, given.start, given.database, form=Form.of(given))
        one_process.tell({"seconds": seconds})
        return
    row = measure(
        given.model, given.trials, form=Form.of(given), budget=given.budget, search=given.search
    )
    one_process.tell(row.to_dict())


if __name__ == "__main__":
    main()
