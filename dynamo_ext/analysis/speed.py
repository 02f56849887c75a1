"""What a run's engines gained over eager, as far as the run itself knows: an estimate."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamo_ext.analysis.placement import EAGER

if TYPE_CHECKING:
    from dynamo_ext.records.graph import Graph
    from dynamo_ext.records.report import Report

FEWEST_PAIRS = 3
"""Pairs of calls that make an estimate."""

WIDEST = 2.0
"""How far the most may be from the least, as a ratio: wider apart, a noisy machine was timed."""


MOST_OF_IT = 0.5
"""The share of the graphs' time from which the gain of some graphs says something of a run."""


@dataclass(frozen=True)
class Gain:
    """How many times as fast as eager, by ``pairs`` of calls: their median, and where most lie.

    ``engine`` and ``eager`` are seconds of one call; of a whole run, of all calls of the ``graphs``
    whose gain is known, of ``called``; these have ``share`` of the graphs' time in this run.
    """

    ratio: float
    low: float
    high: float
    engine: float
    eager: float
    pairs: int
    graphs: int = 1
    called: int = 1
    share: float = 1.0

    @property
    def is_part(self) -> bool:
        """Whether graphs were called whose gain is not known."""
        return self.graphs < self.called


def gain(graph: Graph) -> Gain | None:
    """The gain of one graph; ``None`` where pairs of calls are too few, or too far apart."""
    if len(graph.pairs) >= FEWEST_PAIRS:
        ratios = [eager / engine for engine, eager in graph.pairs]
        engine, eager = (statistics.median(each) for each in zip(*graph.pairs, strict=True))
        # Of many, one on either side may be an accident.
        ratios = sorted(ratios)[1:-1] if len(ratios) > FEWEST_PAIRS + 1 else sorted(ratios)
        low, high = ratios[0], ratios[-1]
        found = Gain(statistics.median(ratios), low, high, engine, eager, len(graph.pairs))
        return found if high <= WIDEST * low else None
    race = graph.contest
    winner = next((c for c in race.contestants if c.backend == race.winner), None) if race else None
    if winner is None or winner.backend == EAGER or not (winner.seconds and winner.low):
        return None
    eager = winner.seconds * winner.speedup
    return Gain(winner.speedup, winner.low, winner.high, winner.seconds, eager, 0)


def whole_gain(report: Report) -> Gain | None:
    """The gain of the graphs that ran together, each by its calls.

    What ran in eager is as fast as eager. Graphs whose gain is not known are left out; ``None``
    where they have more than half of the graphs' time.
    """
    called = [graph for graph in report.graphs if graph.calls]
    known = [(graph, each) for graph in called if (each := gain(graph)) is not None]
    total = sum(graph.run_seconds for graph in called)
    share = sum(graph.run_seconds for graph, _ in known) / total if total else 0.0
    if len(known) == len(called):
        share = 1.0
    if not known or share < MOST_OF_IT:
        return None
    found = [(graph.calls, each) for graph, each in known]
    engine = sum(calls * each.engine for calls, each in found)
    ends = [
        sum(n * each.engine * getattr(each, end) for n, each in found) for end in ("low", "high")
    ]
    eager = sum(calls * each.engine * each.ratio for calls, each in found)
    low, high = (end / engine for end in ends)
    pairs = min(each.pairs for _, each in found)
    ratio = eager / engine
    return Gain(ratio, low, high, engine, eager, pairs, len(known), len(called), share)


def runs_until_paid(report: Report, found: Gain) -> int | None:
    """How often the run has to be made until its compiling has paid.

    ``None`` for never, and where only a part of the gain is known.
    """
    saved = found.eager - found.engine
    spent = report.compile_seconds + report.race_seconds
    if found.is_part or found.low <= 1.0 or saved <= 0:
        return None
    return math.ceil(spent / saved)
