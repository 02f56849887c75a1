"""What happens inside a backend, told to whoever recorded the graph.

Backends know nothing of reports: they write to the journal of the graph being compiled. A
recorder makes one per captured graph (``active``); without one, fallbacks become warnings, so
that a plain ``torch.compile(backend="dx_onnxrt")`` is not silent either.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import warnings
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from dynamo_ext.errors import FallbackWarning
from dynamo_ext.records import NOTHING, Contest, Fallback, FallbackScope, FallbackStage, Partition

if TYPE_CHECKING:
    from collections.abc import Iterator


class Journal:
    """The partitions and fallbacks of one captured graph, for as long as its code lives.

    ``loud`` journals also warn. Backend code keeps a reference, so that a failure in a later
    call lands in the same place. ``race_seconds`` are those that calls of the graph spent on
    races: no part of running it.
    """

    def __init__(self, graph: str = "", *, loud: bool = False) -> None:
        self.graph = graph
        self.loud = loud
        self.normalised = 0
        self.folded = 0
        self.partitions: dict[str, Partition] = {}
        self.fallbacks: dict[tuple[str, ...], Fallback] = {}
        self.contest: Contest | None = None
        self.race_seconds = 0.0

    def adopt(self, other: Journal) -> None:
        """Take over what another journal says of the same graph, and hear what it says later."""
        self.normalised = other.normalised
        self.folded = other.folded
        for partition in other.partitions.values():
            self.add_partition(partition)
        for fallback in other.fallbacks.values():
            subject = fallback.subject.replace(other.graph, self.graph, 1)
            kept = dataclasses.replace(fallback, subject=subject)
            key = (kept.stage, kept.scope, subject, kept.operator, kept.exception, kept.message)
            self.fallbacks[key] = kept
        other.graph, other.loud = self.graph, self.loud
        other.partitions, other.fallbacks = self.partitions, self.fallbacks

    def forget_parts(self) -> None:
        """Drop what it says of partitions and fallbacks: another form of the graph runs now."""
        self.partitions.clear()
        self.fallbacks.clear()

    def add_partition(self, partition: Partition) -> None:
        """Add a partition, or replace the one of the same name (an engine was built anew)."""
        self.partitions[partition.name] = partition

    def add_fallback(  # noqa: PLR0913 - a record's fields, by keyword
        self,
        stage: FallbackStage,
        scope: FallbackScope,
        *,
        partition: str = "",
        operator: str = "",
        error: BaseException | None = None,
        message: str = "",
        remedy: str = "",
    ) -> None:
        """Record that ``stage`` failed and that eager takes over; equal ones are counted.

        Where nobody keeps a report, it is warned of, unless there is nothing to be done about it.
        """
        subject = f"{self.graph}:{partition}" if partition else self.graph
        text = message or (str(error).strip() if error else "")
        name = type(error).__name__ if error else ""
        key = (stage, scope, subject, operator, name, text)
        known = self.fallbacks.get(key)
        if known:
            self.fallbacks[key] = dataclasses.replace(known, count=known.count + 1)
            return
        self.fallbacks[key] = Fallback(stage, scope, subject, operator, name, text, remedy)
        if self.loud and not remedy.startswith(NOTHING):
            what = operator or subject or scope
            note = f"{stage}: {what} runs eagerly: {name + ': ' if name else ''}{text} {remedy}"
            warnings.warn(note.rstrip(), FallbackWarning, stacklevel=_users_level())


def _users_level() -> int:
    """How far up the stack from the caller the user's own code is, as ``warnings.warn`` counts."""
    import torch

    folders = (Path(__file__).parents[1], Path(torch.__file__).parent)
    between = (*(f"{folder}{os.sep}" for folder in folders), "<eval_with_key>")
    frame, level = sys._getframe(1), 1  # noqa: SLF001 - what warnings itself does
    while frame.f_back is not None and frame.f_code.co_filename.startswith(between):
        frame, level = frame.f_back, level + 1
    return level


_current: ContextVar[Journal | None] = ContextVar("dynamo_ext_journal", default=None)


def current() -> Journal:
    """The journal of the graph being compiled, or a new loud one where nobody records."""
    return _current.get() or Journal(loud=True)


@contextlib.contextmanager
def active(journal: Journal) -> Iterator[Journal]:
    """Make ``journal`` the one that backends write to while a graph compiles."""
    token = _current.set(journal)
    try:
        yield journal
    finally:
        _current.reset(token)
