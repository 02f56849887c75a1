"""What is known of frames and graphs, and what one run counted of them.

Dynamo's graphs hold a ``FrameEntry`` and a ``GraphEntry``, so that a later run that compiles
nothing has a full report. A ``RunLog`` lives for one run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from torch.fx import GraphModule

from dynamo_ext.capture.events import capture_disabled
from dynamo_ext.capture.torch_private import frame_eval
from dynamo_ext.records.capture import GraphBreak, Guard, LoopTurns, Recompile
from dynamo_ext.records.graph import Operation
from dynamo_ext.records.report import Fallback
from dynamo_ext.timing.page_faults import PageFaults

if TYPE_CHECKING:
    import types
    import weakref
    from collections.abc import Mapping, MutableMapping

    from torch.nn import Module

    from dynamo_ext.backends.journal import Journal
    from dynamo_ext.backends.pipeline.calls.graph_call import GraphCall


@dataclass(eq=False)
class FrameEntry:
    """A function that Dynamo compiled, skipped or failed on.

    ``name`` is the user's; ``code_name`` tells the parts that Dynamo makes of it apart. ``raised``
    is the name and text of the user's own error that ended its tracing, ``given_up_by`` the break
    for which all of it runs eagerly, ``turn`` the line of a turn of a loop that is plain Python. It
    may be the call of a ``container`` of torch's own.
    """

    id: str
    name: str
    file: str
    line: int
    code: weakref.ref[types.CodeType]
    code_name: str = ""
    outcome: str = "compiled"
    reason: str = ""
    seconds: float = 0.0
    guards: tuple[Guard, ...] = ()
    breaks: list[GraphBreak] = field(default_factory=list)
    fallbacks: list[Fallback] = field(default_factory=list)
    raised: tuple[str, str] | None = None
    given_up_by: GraphBreak | None = None
    turn: int = 0
    graphs: list[weakref.ref[GraphEntry]] = field(default_factory=list)
    guard_failed: bool = False
    static_marks: list[weakref.ref[Any]] = field(default_factory=list)
    input_shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rewritten: weakref.ref[types.CodeType] | None = None
    container: weakref.ref[Module] | None = None
    inlined_functions: frozenset[tuple[str, str]] = frozenset()

    @property
    def title(self) -> str:
        """What a user calls it: the cell, or a function."""
        return "the cell" if self.name == "<module>" else f"{self.name} (line {self.line})"

    def fell_back(self, exception: str, message: str, remedy: str = "", **more: Any) -> None:
        """Record why it runs eagerly; ``more`` are other fields of the ``Fallback``."""
        found = Fallback("capture", "frame", self.id, "", exception, message, remedy, **more)
        self.fallbacks.append(found)


@dataclass(eq=False)
class GraphEntry:
    """A captured graph, held by its compiled callable.

    ``paired`` has, by the numbers among its inputs (sizes that may change), seconds of calls in the
    engine and of calls in eager, made one after the other, with their backward passes where one
    that ``is_trained`` had some; ``unpaired`` is why there are none. ``cold_pairs`` are those of
    the run that compiled it, until a later run has enough; ``None`` before that run; ``faults``
    are eager's. One that ``is_left_to_python`` was called often, and gains nothing captured.
    """

    frame: FrameEntry
    backend: str
    operations: tuple[Operation, ...]
    source: str
    ended_by: GraphBreak | None
    journal: Journal
    mutates: bool
    draws: bool = False
    is_small: bool = False
    is_left_to_python: bool = False
    is_trained: bool = False
    compile_started: float = 0.0
    compile_seconds: float = 0.0
    paired: dict[tuple[int, ...], list[tuple[float, float]]] = field(default_factory=dict)
    cold_pairs: tuple[tuple[float, float], ...] | None = None
    faults: PageFaults = field(default_factory=PageFaults)
    unpaired: str = ""

    @property
    def pairs(self) -> tuple[tuple[float, float], ...]:
        """Those of all sizes."""
        return self.cold_pairs or tuple(pair for pairs in self.paired.values() for pair in pairs)


@dataclass
class GraphCalls:
    """How often a graph ran in one run, and for how many seconds of wall time.

    ``fallbacks_before`` and ``raced_before`` are what its journal held before.
    ``operation_seconds`` are eager's by node, where asked for, had in ``profile_seconds``, while
    other programs kept ``busy_cores`` busy; ``untimed`` is why they are not known.
    ``backward_untimed``: the backward passes could not be measured.
    """

    count: int = 0
    seconds: float = 0.0
    operation_seconds: Mapping[str, float] = field(default_factory=dict)
    profile_seconds: float = 0.0
    busy_cores: float = 0.0
    untimed: str = ""
    fallbacks_before: dict[tuple[str, ...], int] = field(default_factory=dict)
    raced_before: float = 0.0
    backward_seconds: float = 0.0
    backward_untimed: bool = False


Left = tuple[bool, FrameEntry | None]
"""Of what runs in Python: whether what it calls does, too, and what reports say of it."""

OnGraphCall = Callable[[GraphCalls, GraphModule, Sequence[Any]], object]
"""Called just before a graph's call: leaves all as it is but the ``GraphCalls``."""

AfterGraphCall = Callable[
    ["RunLog", GraphEntry, GraphModule, Callable[..., Any], Sequence[Any]], object
]
"""Called after each graph's call, with what was called: calls it again where that has no effect."""

WayOfCall = Callable[["RunLog", GraphEntry, "GraphCall", Sequence[Any]], Callable[..., Any]]
"""Tells, before each graph's call, whether the engine or eager runs it."""


@dataclass(eq=False, kw_only=True)
class RunLog:
    """What happened between two moments, on one thread and those it starts (autograd's).

    ``on_progress`` gets what is being compiled, and an empty text when the run goes on; what a
    backend says it does goes to ``on_doing`` in its place, and an empty text at the end of that;
    ``on_graph_call`` and ``after_graph_call`` get every graph call; ``codes`` are the cell's.
    ``refused`` is why a graph was not whole that had to be. ``fallbacks`` are not those of one
    frame or graph. ``paired_seconds`` are those of the calls made for ``GraphEntry.pairs``. With
    ``decides``, what does not gain by being captured may stay Python; ``way_of_call`` tells then
    what runs a call of a graph. Functions and containers in ``left`` run in Python from the next
    run on; ``left_before`` gives what an earlier kernel left (``left_before.to_remember``).
    """

    cell_file: str | None = None
    codes: Sequence[types.CodeType] = ()
    on_progress: Callable[[str], object] = lambda _: None
    on_doing: Callable[[str], object] | None = None
    on_graph_call: OnGraphCall | None = None
    after_graph_call: AfterGraphCall = lambda *_: None
    paired_seconds: float = 0.0
    decides: bool = False
    way_of_call: WayOfCall | None = None
    left: MutableMapping[Any, Left] = field(default_factory=dict)
    left_before: Callable[[], Mapping[str, tuple[bool, str]]] = dict
    calls: dict[GraphEntry, GraphCalls] = field(default_factory=dict)
    compiled: list[FrameEntry] = field(default_factory=list)
    recompiles: dict[tuple[str, ...], Recompile] = field(default_factory=dict)
    recompiled: dict[tuple[str, ...], list[FrameEntry]] = field(default_factory=dict)
    eager_frames: dict[tuple[str, str, int], FrameEntry] = field(default_factory=dict)
    compile_seconds: float = 0.0
    refused: Exception | None = None
    condition_breaks: dict[GraphBreak, None] = field(default_factory=dict)
    fallbacks: dict[Fallback, None] = field(default_factory=dict)
    turns: dict[int, LoopTurns] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def calls_of(self, entry: GraphEntry) -> GraphCalls:
        """The counter of a graph, begun where this run has not met it yet."""
        counted = self.calls.get(entry)
        if counted is None:
            before = {key: found.count for key, found in entry.journal.fallbacks.items()}
            new = GraphCalls(fallbacks_before=before, raced_before=entry.journal.race_seconds)
            counted = self.calls.setdefault(entry, new)
        return counted

    def count_again(self) -> None:
        """Count the calls of graphs from here on: those before were no part of the run."""
        for entry, calls in self.calls.items():
            before = calls.fallbacks_before
            self.calls[entry] = GraphCalls(fallbacks_before=before, raced_before=calls.raced_before)

    def add_recompile(self, recompile: Recompile, entry: FrameEntry | None = None) -> None:
        """Keep equal recompiles once, with their count; ``entry`` is the frame that compiles."""
        came = (recompile.actual, recompile.actual_type)
        key = (recompile.function, recompile.guard, *came, str(recompile.prevented))
        with self.lock:
            known = self.recompiles.get(key)
            count = known.count + 1 if known else 1
            self.recompiles[key] = dataclasses.replace(recompile, count=count)
            if entry is not None:
                self.recompiled.setdefault(key, []).append(entry)

    def all_recompiles(self) -> tuple[Recompile, ...]:
        """Every recompile, with its seconds."""
        took = {key: sum(e.seconds for e in found) for key, found in self.recompiled.items()}
        return tuple(
            dataclasses.replace(found, compile_seconds=took.get(key, 0.0))
            for key, found in self.recompiles.items()
        )


_active: RunLog | None = None


def active_run() -> RunLog | None:
    """The run being recorded in this process, if any."""
    return _active


def note_stance() -> None:
    """Record that a torch setting forbids compiled code, where that is so."""
    if _active is not None and frame_eval.stance() == "force_eager":
        _active.fallbacks[capture_disabled.FORCED] = None


class Recording:
    """Makes ``run`` the one that compiled graphs report their calls to, within a block.

    A class, since a generator's context costs a microsecond more at every call of a model. Raises
    what ``refused`` holds where the block ends well: it was no error of the user's.
    """

    __slots__ = ("_outer", "_run")

    def __init__(self, run: RunLog) -> None:
        self._run = run

    def __enter__(self) -> RunLog:
        global _active  # read on every graph call: a plain global is the cheapest
        self._outer, _active = _active, self._run
        self._run.refused = None
        note_stance()
        return self._run

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        global _active  # noqa: PLW0603
        _active = self._outer
        if kind is None and self._run.refused is not None:
            raise self._run.refused
