"""What happens inside a backend, kept for the report.

Backends know nothing of reports: they write to the journal of the graph being compiled. A
recorder makes one per captured graph (``active``); without one, fallbacks become warnings, so
that a plain ``torch.compile(backend="dx_onnxrt")`` is not silent either.
"""

import contextlib
import dataclasses
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Self

from dynamo_ext.errors import FallbackWarning
from dynamo_ext.records.autotune import GraphRace
from dynamo_ext.records.graph import KeptOperation, Partition
from dynamo_ext.records.report import Fallback, FallbackCause, FallbackScope, FallbackStage
from dynamo_ext.timing import first_run


class Journal:
    """The partitions and fallbacks of one captured graph, for as long as its code lives.

    Its fallbacks have the partition's name as their subject, or nothing for the graph itself: what
    a report calls the graph is known when that is made. ``warns`` journals also warn. Backend code
    keeps a reference, so that a failure in a later call lands in the same place. ``race_seconds``
    are those that calls of the graph spent on races: no part of running it. ``lowered`` has, by
    partition (or under no name for the graph as a whole), the operations of products that run in
    the lower precision that was asked for, where that is known. What is ``unfinished`` is captured
    again in the next run, which has the time to compile it. ``on_progress`` gets what a
    backend does while it compiles.
    """

    def __init__(self, graph: str = "", *, warns: bool = False) -> None:
        self.graph = graph
        self.warns = warns
        self.normalised = 0
        self.folded = 0
        self.contest: GraphRace | None = None
        self.race_seconds = 0.0
        self.unfinished = False
        self.on_progress: Callable[[str], object] | None = None
        self.start_again()

    def start_again(self) -> None:
        """Forget the backend that ran the graph; a journal that was merged keeps what it says."""
        # By name: one whose engine is built again gets a new record.
        self.partitions: dict[str, Partition] = {}
        self.fallbacks: dict[tuple[str, ...], Fallback] = {}
        # By name: products that stay in the code's precision where the graph is in int8.
        self.kept: dict[str, KeptOperation] = {}
        self.lowered: dict[str, int | None] = {}

    def merge(self, other: Self) -> None:
        """Take over what another journal says of the same graph, and receive what it says later."""
        self.normalised = other.normalised
        self.folded = other.folded
        self.kept.update(other.kept)
        self.partitions.update(other.partitions)
        self.fallbacks.update(other.fallbacks)
        self.lowered.update(other.lowered)
        other.graph, other.warns = self.graph, self.warns
        other.partitions, other.fallbacks = self.partitions, self.fallbacks
        other.lowered, other.kept = self.lowered, self.kept

    def tell(self, words: str) -> None:
        """Show what a backend does, until it tells an empty text."""
        if self.on_progress is not None:
            self.on_progress(words)

    def late(
        self, scope: FallbackScope = "graph", partition: str = "", expected: float = 0.0
    ) -> str:
        """Why nothing starts now that takes so many seconds; empty if there is time for it.

        It is recorded.
        """
        given = first_run.current()
        if why := given.used_up(expected):
            self.add_fallback(
                "lower", scope, partition=partition, message=why, remedy=given.remedy, cause="time"
            )
        return why

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
        harmless: bool = False,
        lack: str = "",
        cause: FallbackCause = "",
    ) -> None:
        """Record that ``stage`` failed and that eager takes over; equal ones are counted.

        Where no report is kept, it is warned of, unless it is ``harmless``.
        """
        text = message or (str(error).strip() if error else "")
        name = type(error).__name__ if error else ""
        key = (stage, scope, partition, operator, name, text)
        if known := self.fallbacks.get(key):
            self.fallbacks[key] = dataclasses.replace(known, count=known.count + 1)
            return
        self.fallbacks[key] = Fallback(*key, remedy, harmless=harmless, lack=lack, cause=cause)
        if self.warns and not harmless:
            what = operator or subject_of(self.graph, partition) or scope
            note = f"{stage}: {what} runs eagerly: {name + ': ' if name else ''}{text} {remedy}"
            warnings.warn(note.rstrip(), FallbackWarning, stacklevel=_users_level())


def subject_of(graph: str, partition: str) -> str:
    """What a record calls a graph, or a partition of it."""
    return f"{graph}:{partition}" if partition else graph


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
    """The journal of the graph being compiled, or a new one that warns where nothing records."""
    return _current.get() or Journal(warns=True)


@contextlib.contextmanager
def active(
    journal: Journal, on_progress: Callable[[str], object] | None = None
) -> Iterator[Journal]:
    """Make ``journal`` the one that backends write to while a graph compiles.

    ``on_progress`` gets what they ``tell`` it. Dynamo calls a compiler with a graph and inputs
    alone, and a backend of the user's may call one of ours: so this is not passed to it.
    """
    token, journal.on_progress = _current.set(journal), on_progress
    try:
        yield journal
    finally:
        _current.reset(token)
        journal.on_progress = None
