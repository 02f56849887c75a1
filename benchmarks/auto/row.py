"""What ``auto`` and each backend alone came to on one model."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.stored_row import ModelRow


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
