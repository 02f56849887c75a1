"""What is measured of a cell under a backend, and what it is measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.engine_facts import first_line
from benchmarks.stored_row import StoredRow
from dynamo_ext.widgets.report import summary

if TYPE_CHECKING:
    from dynamo_ext.records.report import Fallback, Report

BUDGET = {"eager": 4.0, "auto": 40.0}
"""Seconds of a first run, besides those of the plain cell."""

NAMED = 20.0
"""The same for a backend that is asked for by name."""

SLOWER, MORE = 1.1, 0.03
"""What a later run may take: so many times the plain cell, or so many seconds more."""


@dataclass(frozen=True)
class Facts:
    """What the report of a run says.

    ``seconds`` are of the run, ``compile_seconds`` and ``race_seconds`` within. ``share`` is that
    of the calls of graphs in what was neither compiled nor raced. ``said`` is the report's own
    sentence, ``stays`` those on what runs in Python by choice; ``fallbacks`` are the others.
    """

    seconds: float
    compile_seconds: float
    race_seconds: float
    graphs: int
    calls: int
    breaks: int
    share: float
    fallbacks: tuple[str, ...]
    said: str
    stays: tuple[str, ...] = ()

    @classmethod
    def of(cls, report: Report) -> Facts:
        """The facts of a report."""
        captured = sum(report.running_seconds)
        return cls(
            report.seconds,
            report.compile_seconds,
            report.race_seconds,
            len(report.graphs),
            sum(graph.calls for graph in report.graphs),
            sum(found.count for found in report.breaks),
            min(captured / report.run_seconds, 1.0) if report.run_seconds else 0.0,
            tuple(
                f"{each.stage}: {_sentence(each)}" for each in report.fallbacks if not each.harmless
            ),
            summary.details(report),
            tuple(
                _sentence(each)
                for each in report.fallbacks
                if each.harmless and each.stage == "capture"
            ),
        )


def _sentence(fallback: Fallback) -> str:
    said = first_line(" ".join(fallback.message.split()))
    return f"{said.removesuffix('.')}."


@dataclass(frozen=True)
class First:
    """A cell's first run: wall seconds, and in what it differs from the plain one's, if at all."""

    seconds: float
    difference: str = ""
    facts: Facts | None = None


@dataclass(frozen=True)
class Later:
    """The second run, and medians of the ten after it, interleaved with the plain cell's.

    ``facts`` are those of the last run. ``error`` is what a run raised: no run follows it. ``gain``
    is what the second run's report states, with its ends, and ``gain_source`` from what, or why it
    states none.
    """

    second: float
    plain: float = 0.0
    tenth: float = 0.0
    facts: Facts | None = None
    error: str = ""
    gain: tuple[float, ...] = ()
    gain_source: str = ""

    @property
    def ratio(self) -> float:
        """How many times as long as the plain cell it takes."""
        return self.tenth / self.plain

    @property
    def gain_holds(self) -> bool:
        """Whether the interval of the stated gain contains the one that was measured."""
        return bool(self.gain) and self.gain[1] <= 1 / self.ratio <= self.gain[2]

    @property
    def keeps_the_rule(self) -> bool:
        """Whether the runs are about as fast as the plain cell."""
        return not self.error and self.tenth <= max(SLOWER * self.plain, self.plain + MORE)


@dataclass(frozen=True)
class Row(StoredRow):
    """A cell under a backend; what its process did not come to is ``None``.

    ``plain`` is the plain cell's first run. ``error`` says at which stage the process ended, and
    how.
    """

    backend: str
    cell: str
    plain: float | None = None
    first: First | None = None
    later: Later | None = None
    error: str = ""

    @property
    def budget(self) -> float:
        """Seconds that the first run may take."""
        return BUDGET.get(self.backend, NAMED) + (self.plain or 0.0)

    @property
    def over_budget(self) -> bool:
        """Whether the first run took longer, or did not come to an end."""
        return self.first is None or self.first.seconds > self.budget
