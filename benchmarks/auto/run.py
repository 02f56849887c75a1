"""One model under ``auto`` and under each backend alone, in this process."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import dynamo_ext
from benchmarks.peers import PEERS, peers
from benchmarks.stored_row import ModelRow
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import Form
from dynamo_ext.auto.backend import BACKEND
from dynamo_ext.auto.cache import Store
from dynamo_ext.backends import registry
from dynamo_ext.measure.candidate_run import settle
from dynamo_ext.timing import statistics

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from benchmarks.zoo.model import Built
    from dynamo_ext.api.compare import ComparisonResult

SETTLING = 60.0
"""Seconds of calls, at most, in which the winners are timed in company."""

STARTS = 3
"""First calls of each kind that are timed, after one that is not."""


@dataclass(frozen=True)
class Single:
    """A speedup with its 95 % interval; zeros and a reason where it was not measured.

    ``compile_seconds`` went to Dynamo and the
    backend, ``first_seconds`` to the whole first call, and ``peak_bytes`` is what one call took
    beyond what was resident before.
    """

    name: str
    outcome: str
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    reason: str = ""
    compile_seconds: float = 0.0
    first_seconds: float = 0.0
    peak_bytes: int | None = None


@dataclass(frozen=True)
class Row(ModelRow):
    """One model.

    ``auto``, ``singles`` and ``peers`` are speedups over eager, ``over_best`` is ``auto``'s over
    the best of the singles, all from the same rounds. ``known_start`` and ``winner_start`` are
    seconds of a first call: of ``auto`` where the race is remembered, and of its winner by itself
    (0 where several backends won, or eager). A model that could not be measured has an ``error``.
    """

    model: str
    quick: bool = False
    eager_seconds: float = 0.0
    winners: tuple[tuple[str, int], ...] = ()
    graphs: int = 0
    race_seconds: float = 0.0
    auto: Single | None = None
    singles: tuple[Single, ...] = ()
    peers: tuple[Single, ...] = ()
    over_best: Single | None = None
    known_start: float = 0.0
    winner_start: float = 0.0
    rounds: int = 0
    error: str = ""


def measure(name: str, given: argparse.Namespace) -> Row:
    """Race a model's graphs, and then compare what came of it with each backend for all."""
    with tempfile.TemporaryDirectory() as folder:
        # The user's own races neither help nor are added to.
        BACKEND.store = Store(Path(folder, "races.sqlite"))
        return _measured(name, given)


def _measured(name: str, given: argparse.Namespace) -> Row:
    singles = [each for each in given.backends.split(",") if each] or registry.racing_here()
    form = Form.of(given)
    built = MODELS[name].build(form)
    options = {"candidates": "+".join(singles), "budget": given.race}
    with built.gradients():
        fast = dynamo_ext.optimize("auto", options=options)(built.module)
        fast(*built.args, **built.kwargs)
        settle(BACKEND, lambda: fast(*built.args, **built.kwargs), SETTLING)
        graphs = fast.report().graphs
        contests = [graph.contest for graph in graphs if graph.contest is not None]
        found = dynamo_ext.compare(
            built.module,
            built.args,
            ["auto", *singles],
            kwargs=built.kwargs,
            budget=given.budget,
            options={f"auto.{key}": value for key, value in options.items()},
            callables={} if given.no_peers else peers(built),
        )
        winners = Counter(contest.winner for contest in contests)
        starts = _starts(built, options, winners)
    eager = found["eager"].timing
    return Row(
        model=name,
        quick=form.tiny,
        eager_seconds=eager.median if eager else 0.0,
        winners=tuple(winners.most_common()),
        graphs=len(graphs),
        race_seconds=sum(contest.seconds for contest in contests),
        auto=_single(found, "auto"),
        singles=tuple(_single(found, each) for each in singles),
        peers=tuple(_single(found, each) for each in (() if given.no_peers else PEERS)),
        over_best=_over_best(found, singles),
        known_start=starts[0],
        winner_start=starts[1],
        rounds=found.record.rounds,
    )


def _single(found: ComparisonResult, name: str) -> Single:
    row = found[name]
    # Where auto chose eager, what choosing and checking cost is what its user pays.
    counts = row.outcome == "measured" or (name == "auto" and row.outcome == "eager")
    speedup = row.speedup if counts else None
    if speedup is None:
        return Single(name, row.outcome, reason=row.reason)
    return Single(
        name,
        row.outcome,
        speedup.ratio,
        speedup.low,
        speedup.high,
        compile_seconds=row.compile_seconds,
        first_seconds=row.first_call_seconds,
        peak_bytes=row.peak_bytes,
    )


def _over_best(found: ComparisonResult, singles: Sequence[str]) -> Single | None:
    """How many times faster ``auto`` was than the best single backend, within rounds."""
    mine = found["auto"].timing
    measured = [found[n] for n in singles if found[n].outcome == "measured" and found[n].speedup]
    best = max(measured, key=lambda row: row.speedup.ratio if row.speedup else 0, default=None)
    # With eager as a choice of auto's, eager is a single backend, too.
    if best is None or (best.speedup is not None and best.speedup.ratio < 1):
        best = found["eager"]
    if mine is None or best.timing is None:
        return None
    count = min(len(mine.samples), len(best.timing.samples))
    speedup = statistics.speedup(best.timing.samples[:count], mine.samples[:count])
    interval = (speedup.ratio, speedup.low, speedup.high)
    return Single(best.name, "measured", *interval)


def _starts(built: Built, options: dict[str, Any], winners: Counter[str]) -> tuple[float, float]:
    """Seconds of a first call: of ``auto`` that knows the race, and of its winner alone.

    Two numbers where one backend, and not eager, has won all graphs; else zeros.
    """
    if len(winners) != 1 or "eager" in winners:
        return 0.0, 0.0
    [winner] = winners
    taken: dict[str, list[float]] = {"auto": [], winner: []}
    for _ in range(1 + STARTS):
        for name, times in taken.items():
            torch._dynamo.reset()  # noqa: SLF001 - torch's own way to start afresh
            given = options if name == "auto" else None
            fast = dynamo_ext.optimize(name, options=given)(built.module)
            started = time.perf_counter()
            fast(*built.args, **built.kwargs)
            times.append(time.perf_counter() - started)
    known, alone = (sorted(times[1:])[STARTS // 2] for times in taken.values())
    return known, alone
