"""What ``auto`` and each backend alone came to on one model."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import cattrs


@dataclass(frozen=True)
class Single:
    """A speedup with its 95 % interval; zeros and a reason where it was not measured."""

    name: str
    outcome: str
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """One model.

    ``auto`` and ``singles`` are speedups over eager, ``over_best`` is ``auto``'s over the best of
    them, all from the same rounds. ``known_start`` and ``winner_start`` are seconds of a first
    call: of ``auto`` where the race is remembered, and of its winner by itself (0 where several
    backends won, or eager). A model that could not be measured has an ``error``.
    """

    model: str
    quick: bool = False
    eager_seconds: float = 0.0
    winners: tuple[tuple[str, int], ...] = ()
    graphs: int = 0
    race_seconds: float = 0.0
    auto: Single | None = None
    singles: tuple[Single, ...] = ()
    over_best: Single | None = None
    known_start: float = 0.0
    winner_start: float = 0.0
    rounds: int = 0
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for ``json.dumps``."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Row:
        """Rebuild a row from ``to_dict`` or from its JSON."""
        return cattrs.structure(record, cls)
