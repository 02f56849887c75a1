"""One cell under one backend: its first run, and later ones beside the plain cell."""

from __future__ import annotations

import statistics

import dynamo_ext
from benchmarks.first_run.cells import CELLS
from benchmarks.first_run.namespace import Namespace, shell
from benchmarks.first_run.row import Facts, First, Later, Row
from benchmarks.first_run.same import Judge, bound, printed_difference
from dynamo_ext.analysis import speed
from dynamo_ext.errors import NoReportError

BACKENDS = ("eager", "inductor", "onnxrt", "openvino", "auto")

STAGES = ("plain run", "first run", "later runs")
"""What the process goes through; each has the limit of time to itself."""

ROUNDS = 10
"""Runs after the second one, of which there is the median."""


class Measurement:
    """A cell plainly and under a backend, in two namespaces that have run the same setup."""

    def __init__(self, backend: str, cell: str) -> None:
        self._row = Row(backend, cell)
        self._setup, self._cell, self._result = CELLS[cell]
        self._magic = f"%%dynamo -b {backend} --quiet\n{self._cell}"
        self._steps = [self._plain_run, self._first_run, self._later_runs]

    def take(self, stage: str) -> Row:
        """The row with what a stage measures; those before it are gone through where need be.

        They need be where another process has gone through them.
        """
        row = self._row
        while len(self._steps) + STAGES.index(stage) >= len(STAGES):
            row = self._steps.pop(0)()
        return row

    def _plain_run(self) -> Row:
        self._shell = shell()
        self._plain, self._other = Namespace(self._shell), Namespace(self._shell)
        for space in (self._plain, self._other):
            space.must_run(self._setup)
        self._other.must_run("%load_ext dynamo_ext")
        before = dict(self._plain.names)
        self._plainly = self._plain.must_run(self._cell)
        self._bound = bound(before, self._plain.names)
        return Row(self._row.backend, self._row.cell, self._plainly.seconds)

    def _first_run(self) -> Row:
        ran = self._other.run(self._magic)
        facts = _facts()
        if ran.error is not None:
            wrong = f"raised {ran.raised}"
        else:
            judge = Judge(self._shell, self._setup, self._cell)
            names = list(dict.fromkeys([self._result, *self._bound]))
            wrong = judge.difference(names, self._plain.names, self._other.names)
            printed = printed_difference(self._plainly, ran)
            wrong = wrong or (printed and f"printed: {printed}")
        return Row(self._row.backend, self._row.cell, first=First(ran.seconds, wrong, facts))

    def _later_runs(self) -> Row:
        sides = (self._plain, self._cell), (self._other, self._magic)
        times: tuple[list[float], list[float]] = [], []
        gain: tuple[tuple[float, ...], str] = (), ""
        for turn in range(1 + ROUNDS):
            # Either is first in turn.
            for side in (0, 1) if turn % 2 else (1, 0):
                space, text = sides[side]
                ran = space.run(text)
                times[side].append(ran.seconds)
                if ran.error is not None:
                    return self._with(Later(times[1][0] if times[1] else 0.0, error=ran.raised))
                if times[1] and not times[0]:
                    # Before the plain cell has run again, whose seconds would be the answer.
                    gain = _stated_gain()
        plain, tenth = (statistics.median(each[1:]) for each in times)
        return self._with(Later(times[1][0], plain, tenth, _facts(), "", *gain))

    def _with(self, later: Later) -> Row:
        return Row(self._row.backend, self._row.cell, later=later)


def _stated_gain() -> tuple[tuple[float, ...], str]:
    try:
        found = speed.cell_gain(dynamo_ext.last_report())
    except NoReportError:
        return (), "no report"
    if isinstance(found, str):
        return (), found
    return (found.ratio, found.low, found.high), found.source


def _facts() -> Facts | None:
    try:
        return Facts.of(dynamo_ext.last_report())
    except NoReportError:
        return None
