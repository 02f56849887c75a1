"""One line of the model table: what a backend did with a model, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.stored_row import StoredRow

Status = Literal["right", "wrong", "failed"]


@dataclass(frozen=True)
class Note:
    """Fallbacks of one kind: the stage, the operator to blame (or nothing), what was said."""

    stage: str
    operator: str
    message: str
    count: int


@dataclass(frozen=True)
class Row(StoredRow):
    """A model under a backend in a dtype.

    ``status`` compares the results of three calls with eager's. ``reason`` says what is wrong or
    how it failed. ``operations`` counts those of the normalised graphs and ``in_engine`` those
    that the engine ran; both are 0 for a backend that takes graphs whole. ``switches`` counts
    the changes between engine and eager in one call. ``absolute_error`` is the largest over all
    outputs and calls, ``relative_error`` the largest in relation to the output's largest
    element. For bfloat16 ``eager_error`` is eager's own distance from float32, relative in the
    same way, and ``float32_error`` the backend's. ``machine`` says what it was measured with.
    """

    model: str
    backend: str
    dtype: str
    quick: bool
    status: Status
    reason: str = ""
    graphs: int = 0
    breaks: int = 0
    normalised: bool = False
    operations: int = 0
    in_engine: int = 0
    partitions: int = 0
    switches: int = 0
    compile_seconds: float = 0.0
    absolute_error: float = 0.0
    relative_error: float = 0.0
    eager_error: float = 0.0
    float32_error: float = 0.0
    notes: tuple[Note, ...] = ()
    version: str = ""
    machine: str = ""

    @property
    def key(self) -> str:
        """What tells this row from the others of a table."""
        return f"{self.model} / {self.backend} / {self.dtype}"

    @property
    def engine_failures(self) -> tuple[Note, ...]:
        """Fallbacks other than operators that were refused ahead of lowering."""
        return tuple(note for note in self.notes if note.stage != "unsupported")
