"""What a run gained over plain code, as far as the run itself knows: an estimate."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dynamo_ext.analysis.placement import EAGER
from dynamo_ext.analysis.remembered import remembered
from dynamo_ext.formatting import count
from dynamo_ext.records.capture import LoopTurns
from dynamo_ext.records.comparison import BUSY_CORES, Verdict, verdict_of
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Report

FEWEST_PAIRS = 3
"""Pairs of calls that make an estimate."""

MOST_OF_IT = 0.5
"""The share of a run's time from which the gain of its graphs says something of all of it."""

LITTLE = 0.02
"""The share of a run's time up to which its graphs are nothing that it could gain by."""

OFF = 0.2
"""By how much an estimate is off for most cells: see docs/first-run.md."""

MOST_RUNS = 100_000
"""Runs after which compiling has paid, at most; what needs more never pays."""

AGREE = 1.3
"""How many times as long as another one a plain run may take."""

SHORT_CELL = 0.02
"""Seconds of a plain cell below which IPython's own work is too large a part of them."""


@dataclass(frozen=True)
class Gain:
    """How many times as fast as eager a graph is: the median of pairs, and where most lie.

    ``engine`` and ``eager`` are seconds of one call; ``pairs`` is 0 where a race measured it.
    """

    ratio: float
    low: float
    high: float
    engine: float
    eager: float
    pairs: int


@dataclass(frozen=True)
class CellGain:
    """Seconds of a whole cell without compiling, and plainly; the ends of their ratio.

    ``source`` is what the plain seconds are from.
    """

    seconds: float
    plain: float
    low: float
    high: float
    source: str

    @property
    def ratio(self) -> float:
        """How many times as fast as the plain cell it is."""
        return self.plain / self.seconds

    @property
    def verdict(self) -> Verdict:
        """By the rule of comparisons."""
        return verdict_of(self.ratio, self.low, self.high)


def gain(graph: Graph) -> Gain | None:
    """The gain of one graph; ``None`` where it is not known, or was measured on a busy machine."""
    # Pairs with backward passes say nothing of a run without.
    if len(graph.pairs) >= FEWEST_PAIRS and graph.is_trained == bool(graph.backward_seconds):
        ratios = sorted(eager / engine for engine, eager in graph.pairs)
        engine, eager = (statistics.median(each) for each in zip(*graph.pairs, strict=True))
        # Of many, one on either side may be an accident.
        ratios = ratios[1:-1] if len(ratios) > FEWEST_PAIRS + 1 else ratios
        return Gain(
            statistics.median(ratios), ratios[0], ratios[-1], engine, eager, len(graph.pairs)
        )
    race = graph.contest
    if race is None or not race.conclusive:
        return None
    winner = next((each for each in race.contestants if each.backend == race.winner), None)
    if winner is None or winner.backend == EAGER or not (winner.seconds and winner.low):
        return None
    eager = winner.seconds * winner.speedup
    return Gain(winner.speedup, winner.low, winner.high, winner.seconds, eager, 0)


@remembered
def cell_gain(report: Report) -> CellGain | str:
    """The gain of the whole cell, or why it is not known.

    The plain seconds are those of plain runs of the same text in this kernel, if there are two that
    agree. Else eager's seconds of pairs of calls, or of races, stand in for each graph's, and the
    code outside of graphs counts as it is.
    """
    known = [(graph, each) for graph in report.graphs if graph.calls and (each := gain(graph))]
    now, as_plain, engine = _seconds(report, known)
    plain = _steady(report.plain_runs)
    eagers = report.graphs and all(_is_eagers(graph) for graph in report.graphs if graph.calls)
    if eagers or plain_loops(report):
        # What runs as the plain cell does gains nothing, whatever single runs took.
        return _why_not(report)
    if (plain or known or report.paired_seconds) and report.busy_cores >= BUSY_CORES:
        return f"other programs kept {report.busy_cores:.1f} cores busy in this run"
    if plain and not report.compile_seconds and report.run_seconds > 0:
        source = f"{count(len(plain), 'run')} of the same text as a plain cell"
        ends = min(plain) / report.run_seconds, max(plain) / report.run_seconds
        return _estimate(report.run_seconds, statistics.median(plain), ends, source)
    if known and as_plain + engine >= MOST_OF_IT * now and not is_plain(report):
        return _by_pairs(known, now, now - engine)
    if plain:
        return "this run compiled; the next one is compared with its plain runs"
    return _why_not(report)


def _steady(plain: Sequence[float]) -> list[float]:
    """The last plain runs that agree; none where they are not two, or short.

    First runs of a text are slower than later ones, some of them by ten times.
    """
    steady: list[float] = []
    for took in reversed(plain):
        together = [*steady, took]
        if max(together) > AGREE * min(together):
            break
        steady.append(took)
    return steady if len(steady) > 1 and min(steady) >= SHORT_CELL else []


def _seconds(report: Report, gains: Sequence[tuple[Graph, Gain]]) -> tuple[float, float, float]:
    """Of a run as those to come; of its graphs that run as plain; of those whose gain is known."""
    named = {graph.id for graph, _ in gains}
    # As they were, but for first calls, which are slow.
    engine = sum(
        graph.calls * each.engine if report.compile_seconds else graph.seconds
        for graph, each in gains
    )
    others = [graph for graph in report.graphs if graph.calls and graph.id not in named]
    as_plain = sum(graph.run_seconds for graph in others if _is_eagers(graph))
    rest = report.outside_seconds + sum(graph.seconds for graph in others)
    return rest + engine, as_plain, engine


def _by_pairs(gains: Sequence[tuple[Graph, Gain]], now: float, rest: float) -> CellGain:
    ratio, low, high = (
        (rest + sum(g.calls * each.engine * getattr(each, end) for g, each in gains)) / now
        for end in ("ratio", "low", "high")
    )
    pairs = min(each.pairs for _, each in gains)
    source = f"{count(pairs, 'pair')} of calls of its graphs" if pairs else "races of its graphs"
    longest, _ = max(gains, key=lambda each: each[0].calls * each[1].eager)
    source += f"; {longest.faults}" * bool(longest.faults)
    return _estimate(now, ratio * now, (low, high), source)


def _estimate(now: float, plain: float, ends: tuple[float, float], source: str) -> CellGain:
    """With an interval that is as wide as such estimates are off."""
    return CellGain(now, plain, ends[0] / (1 + OFF), ends[1] * (1 + OFF), source)


def _is_eagers(graph: Graph) -> bool:
    """Whether all of it runs as plain code does."""
    if graph.contest is not None:
        return graph.contest.winner == EAGER
    return bool(graph.partitions) and not graph.ran_in_engine


def loops_left_plain(report: Report) -> tuple[LoopTurns, ...]:
    """The loops whose turns run in Python from some turn of this run on, since that is faster."""
    return tuple(loop for loop in report.turns if loop.plain and not loop.turns)


def plain_loops(report: Report) -> tuple[LoopTurns, ...]:
    """Those loops, if their turns in Python are most of the run, or nothing was captured."""
    loops = loops_left_plain(report)
    most = sum(loop.plain for loop in loops) >= MOST_OF_IT * report.run_seconds
    return loops if most or not report.graphs else ()


def is_plain(report: Report) -> bool:
    """Whether a run in which nothing was compiled ran as the plain cell does."""
    graphs = [graph for graph in report.graphs if not _is_eagers(graph)]
    compiled = sum(graph.seconds for graph in graphs)
    return not report.compile_seconds and compiled <= LITTLE * report.run_seconds


def _why_not(report: Report) -> str:
    races = [graph.contest for graph in report.graphs if graph.contest is not None]
    notes = [race.note for race in races if race.note and not race.conclusive]
    if notes:
        return f"{notes[0][0].lower()}{notes[0][1:].rstrip('.')}"
    forward, backward = report.running_seconds
    reasons = {graph.unpaired: graph.run_seconds for graph in report.graphs if graph.unpaired}
    if races and all(race.winner == EAGER for race in races):
        reasons = {"auto left its graphs to eager": 0.0}
    elif is_plain(report):
        reasons = {f"less than {LITTLE:.0%} of its time is in compiled graphs": 0.0}
    elif report.backend == EAGER:
        reasons = {"the eager backend runs what it captures as it is": 0.0}
    elif report.cell is None:
        reasons = {"calls of a function are not timed in eager, too, as those of a cell are": 0.0}
    elif backward > forward or any(map(gain, report.graphs)):
        outside = report.outside_seconds > backward
        rest = "code outside of its graphs" if outside else "backward passes that were not timed"
        again = "; run the cell again" if report.compile_seconds else ""
        reasons = {f"much of this run is {rest}{again}": 0.0}
    if reasons:
        return max(reasons, key=lambda reason: reasons[reason])
    return "its graphs' calls take long beside their compiling; each run measures some more"


def runs_until_paid(report: Report, gain: CellGain) -> int | None:
    """How often the cell has to run until its compiling has paid; ``None`` for never."""
    if gain.verdict != "faster":
        return None
    runs = math.ceil(spent(report) / (gain.plain - gain.seconds))
    return runs if runs <= MOST_RUNS else None


def spent(report: Report) -> float:
    """Seconds of compiling and racing of this run and of earlier ones of the cell."""
    return report.compile_seconds + report.race_seconds + report.spent_before
