"""How much of a model Dynamo captures, and what running it so costs."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.stored_row import ModelRow


@dataclass(frozen=True)
class Row(ModelRow):
    """One model under the ``eager`` backend: captured, and run as it is.

    ``inside`` and ``outside`` count ATen operations of one call in and outside of captured graphs,
    ``inside_seconds`` and ``outside_seconds`` what they took. ``ratio`` with ``low`` and ``high``
    is plain eager's time over that under Dynamo with its 95 % interval, ``overhead_seconds`` the
    difference of the medians. A model that could not be measured has an ``error``.
    """

    model: str
    quick: bool = False
    inside: int = 0
    outside: int = 0
    inside_seconds: float = 0.0
    outside_seconds: float = 0.0
    graph_calls: int = 0
    sizes: tuple[int, ...] = ()
    breaks: int = 0
    reasons: tuple[str, ...] = ()
    eager_seconds: float = 0.0
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    overhead_seconds: float = 0.0
    first_seconds: float = 0.0
    error: str = ""

    @property
    def share(self) -> float:
        """Of the operations, how many were captured."""
        return self.inside / max(self.inside + self.outside, 1)

    @property
    def time_share(self) -> float:
        """The same by the time that they take."""
        total = self.inside_seconds + self.outside_seconds
        return self.inside_seconds / total if total else 0.0
