"""The winner of a race, and the reasons given for the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from dynamo_ext.backends import precision
from dynamo_ext.measure.multi_backend import EAGER
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace, OnlineTrial
from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import Speedup

MATTERS = 0.05
"""What may be gained over eager that is worth another race, as a share."""

_TIMED = frozenset({"won", "slower", "same"})


def is_faster(speedup: Speedup) -> bool:
    """Whether a speedup is one beyond noise."""
    return speedup.verdict == "faster"


def winner_of(speedups: Mapping[str, Speedup]) -> str:
    """The fastest of those that are faster than eager beyond noise; eager where none is.

    ``speedups`` are those of the backends that reached the finish, right and timed, over eager.
    """
    faster = {name: speedup.ratio for name, speedup in speedups.items() if is_faster(speedup)}
    return max(faster, key=lambda name: faster[name], default=EAGER)


def is_open(speedups: Mapping[str, Speedup]) -> bool:
    """Whether eager wins for want of rounds: half of them say that a backend gains what matters."""
    return winner_of(speedups) == EAGER and any(s.ratio > 1 + MATTERS for s in speedups.values())


def by_promise(names: Iterable[str], promises: Mapping[str, float]) -> list[str]:
    """The backends, those first that were the fastest over eager in earlier races."""
    return sorted(names, key=lambda name: -promises.get(name, 1.0))


def place(name: str, winner: str, speedup: Speedup | None) -> tuple[str, str]:
    """The outcome of a backend that reached the finish, and why it lost.

    ``speedup`` is over eager, ``None`` for eager and where it was not timed.
    """
    if name == winner:
        return "won", ""
    if name == EAGER or (speedup is not None and is_faster(speedup)):
        return "slower", f"{winner} is faster."
    if speedup is None:
        return "slower", "Not timed."
    if speedup.ratio < 1:
        return "slower", "Slower than eager."
    if speedup.low > 1:
        return "same", "Perhaps faster: by too little, or in too few rounds, to be sure."
    return "same", "No faster than eager within noise."


def best_full(held: GraphRace, available: Collection[str]) -> str:
    """The fastest of the ``available`` backends in the code's own precision; eager where none is.

    It is one that was faster than eager beyond noise.
    """
    rows = [
        row
        for row in held.contestants
        if row.backend in available
        and precision.behind(row.backend) == FULL
        and row.outcome in _TIMED
        and row.low > 1
    ]
    return min(rows, key=lambda row: row.seconds).backend if rows else EAGER


def kept_full(held: GraphRace, winner: str) -> GraphRace:
    """A race with ``winner`` in the place of a lower precision, with which the whole was off."""
    reason = "Within the bound by itself, but not in the results of the whole cell."
    rows = {held.winner: ("wrong", reason), winner: ("won", "")}
    return dataclasses.replace(
        held, winner=winner, contestants=_with_outcomes(held, rows), confirmation=None
    )


def _with_outcomes(
    held: GraphRace, told: Mapping[str, tuple[str, str]]
) -> tuple[GraphCandidateResult, ...]:
    rows = []
    for row in held.contestants:
        outcome, reason = told.get(row.backend, (row.outcome, row.reason))
        rows.append(dataclasses.replace(row, outcome=outcome, reason=reason))
    return tuple(rows)


def timed(held: GraphRace) -> dict[str, float]:
    """Seconds of a call, of eager and every backend that was right and timed."""
    rows = held.contestants
    return {row.backend: row.seconds for row in rows if row.outcome in _TIMED and row.seconds}


def confirmed(held: GraphRace, winner: str, confirmation: OnlineTrial) -> GraphRace:
    """A race with ``winner`` kept by the results in the user's own calls."""
    if winner == held.winner:
        return dataclasses.replace(held, confirmation=confirmation)
    told = {
        winner: ("won", ""),
        held.winner: ("slower", "Fastest in isolation, but slower within your program."),
    }
    return dataclasses.replace(
        held, winner=winner, contestants=_with_outcomes(held, told), confirmation=confirmation
    )
