"""The winner of a race, and the reasons given for the others."""

import dataclasses
from collections.abc import Collection, Mapping

from dynamo_ext.backends import precision
from dynamo_ext.measure.multi_backend import EAGER, winner_of
from dynamo_ext.records.autotune import GraphRace, OnlineTrial
from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import Speedup

MATTERS = 0.05
"""What may be gained over eager that is worth another race, as a share."""

TIMED = frozenset({"won", "slower", "same"})
"""Outcomes of what was right and timed."""

OFF = "wrong", "Within the bound by itself, but not in the results of the whole cell."
BEATEN = "slower", "Fastest in isolation, but slower within your program."
"""What a winner comes to in whose place another one is kept."""


def is_open(speedups: Mapping[str, Speedup]) -> bool:
    """Whether more rounds are to decide: eager wins, and a backend's median gains what matters."""
    return winner_of(speedups) == EAGER and any(s.ratio > 1 + MATTERS for s in speedups.values())


def place(name: str, winner: str, speedup: Speedup | None) -> tuple[str, str]:
    """The outcome of a backend that reached the finish, and why it lost.

    ``speedup`` is over eager, ``None`` for eager and where it was not timed.
    """
    if name == winner:
        return "won", ""
    if name == EAGER or (speedup is not None and speedup.verdict == "faster"):
        return "slower", f"{winner} is faster."
    if speedup is None:
        return "slower", "Not timed."
    if speedup.ratio < 1:
        return "slower", "Slower than eager."
    if speedup.low > 1:
        return "same", "Perhaps faster: by too little, or in too few rounds, to be sure."
    return "same", "No faster than eager within noise."


def best_full(contest: GraphRace, available: Collection[str]) -> str:
    """The fastest of the ``available`` backends in the code's own precision; eager where none is.

    It is one that was faster than eager beyond noise.
    """
    faster = (row for row in contest.contestants if row.outcome in TIMED and row.low > 1)
    full = (row for row in faster if precision.behind(row.backend) == FULL)
    rows = [row for row in full if row.backend in available]
    return min(rows, key=lambda row: row.seconds).backend if rows else EAGER


def replaced(
    contest: GraphRace, winner: str, why: tuple[str, str], confirmation: OnlineTrial | None = None
) -> GraphRace:
    """A race with ``winner`` in the place of the one that won it, whose outcome is ``why``."""
    told = {contest.winner: why, winner: ("won", "")}
    rows = []
    for row in contest.contestants:
        outcome, reason = told.get(row.backend, (row.outcome, row.reason))
        rows.append(dataclasses.replace(row, outcome=outcome, reason=reason))
    return dataclasses.replace(
        contest, winner=winner, contestants=tuple(rows), confirmation=confirmation
    )
