"""The record of one run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from dynamo_ext.records.autotune import GraphRace
from dynamo_ext.records.common import CodeBlock, SourceLine, structured

SCHEMA_VERSION = 2

Mode = Literal["optimize", "run", "explain"]

FrameOutcome = Literal["compiled", "reused", "eager", "skipped", "failed"]

BreakKind = Literal[
    "",
    "branch",
    "number",
    "fake_tensor",
    "about_compiling",
    "recurrent",
    "numpy",
    "module",
    "skipped",
]

RecompileKind = Literal[
    "", "hooks", "parameter", "parameter rank", "size", "bound", "relation", "rank", "dtype",
    "device", "grad", "stride", "length", "object", "code", "type", "float", "integer", "value",
]  # fmt: skip

PartitionRole = Literal["inference", "forward", "backward"]

FallbackStage = Literal["capture", "unavailable", "unsupported", "lower", "verify", "run"]

FallbackScope = Literal["run", "frame", "graph", "partition"]

FallbackCause = Literal["", "recompile_limit", "loop"]


@dataclass(frozen=True)
class Operation:
    """One row of an FX graph's table (opcode, name, target, args, kwargs).

    ``dtype`` and ``shape`` describe the result where it is one tensor; symbolic sizes are kept
    as text (``s0``). ``line`` is the innermost line of the user's code that asked for it.
    ``seconds`` is what it takes in eager by itself, where that was asked for (``--profile``).
    """

    opcode: str
    name: str
    target: str
    args: str
    kwargs: str
    dtype: str = ""
    shape: tuple[str, ...] | None = None
    line: SourceLine | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Partition:
    """The part of a graph that one engine runs.

    ``engine`` is a backend's name, or ``eager`` for operations no engine took. ``operations``
    counts the call nodes of the normalised graph in it, ``targets`` names them (in order, with
    repeats); ``captured`` has the names of the captured operations that these came of, as far as
    torch tells. ``reason`` says why an eager partition is eager; with ``short`` the engine takes
    its operations, but they are too few in a row (``min_partition``). ``frozen`` counts the
    parameters and buffers that became constants. Seconds are wall time. ``role`` says which of
    the graph's passes it is part of; ``None`` where that is not known.
    """

    name: str
    engine: str
    operations: int
    targets: tuple[str, ...] = ()
    reason: str = ""
    frozen: int = 0
    lower_seconds: float = 0.0
    engines_built: int = 0
    captured: tuple[str, ...] = ()
    short: bool = False
    role: PartitionRole | None = None


@dataclass(frozen=True)
class Graph:
    """One FX graph that Dynamo handed to a backend.

    ``operations`` holds every node, placeholders and output included. ``calls`` and
    ``run_seconds`` belong to this run; ``compile_seconds`` to the run that compiled it
    (``compiled_now``). ``ended_by`` is the index into ``Report.breaks`` of the break that cut
    it short, or ``None`` where the function returned. ``normalised`` counts the call nodes
    after normalisation, forward and backward together (0 for backends that take the graph whole),
    without the ``folded`` ones: they depend on no input, and were computed when it was compiled.
    ``untimed`` is why its operations' times, though asked for, are not known.
    ``backward_seconds`` are those of its compiled backward passes, which ``run_seconds`` has not;
    ``backward_untimed`` says that autograd would run its operations one by one: not known.
    """

    id: str
    frame: str
    backend: str
    operations: tuple[Operation, ...]
    source: str
    compile_seconds: float
    compiled_now: bool
    calls: int
    run_seconds: float
    partitions: tuple[Partition, ...] = ()
    normalised: int = 0
    ended_by: int | None = None
    contest: GraphRace | None = None
    folded: int = 0
    untimed: str = ""
    backward_seconds: float = 0.0
    backward_untimed: bool = False

    @property
    def operation_seconds(self) -> float:
        """What its operations take in eager, one by one; 0.0 where that was not asked for."""
        return sum(op.seconds for op in self.operations)

    @property
    def operation_count(self) -> int:
        """Nodes that compute: calls of functions, methods and modules."""
        return sum(op.opcode.startswith("call_") for op in self.operations)

    @property
    def ran_in_engine(self) -> int:
        """Normalised operations that an engine took; 0 for whole-graph backends."""
        return sum(p.operations for p in self.partitions if p.engine != "eager")


@dataclass(frozen=True)
class Frame:
    """One Python function that Dynamo looked at (``id`` is Dynamo's compile id, as ``3/0``).

    ``compile_seconds`` covers tracing, the backend and the guards, for frames compiled in this
    run. ``reason`` says why a frame was skipped, failed or ran eagerly. ``turn`` is the line of the
    cell at which it begins where it is (part of) the body of a loop and runs as plain Python, and 0
    where it is not.
    """

    id: str
    name: str
    file: str
    line: int
    outcome: FrameOutcome
    graphs: tuple[str, ...] = ()
    guards: int = 0
    compile_seconds: float = 0.0
    reason: str = ""
    in_cell: bool = False
    turn: int = 0

    @property
    def is_cell(self) -> bool:
        """Whether it is of the cell's own statements, and not of a function defined there."""
        return self.in_cell and self.name == "<module>"


@dataclass(frozen=True)
class GraphBreak:
    """Why a frame's capture ended. Equal breaks are kept once, with ``count``.

    ``registry_id`` (``gb0059``) is torch's graph-break registry; ``link`` its page there. ``kind``
    tells common breaks apart that have no page: a choice by a tensor's value, a number read out of
    one, an operation that fails on fake tensors, a call that tells torch how to compile, NumPy, a
    module that is not built yet, a function that is not traced; empty for all others. ``name`` is
    the name that is not defined, or the function that tells torch how to compile. ``reason`` is
    for reading; ``explanation`` and ``hints`` are torch's own words.
    """

    registry_id: str
    reason: str
    explanation: str
    hints: tuple[str, ...]
    link: str
    line: SourceLine | None
    stack: tuple[SourceLine, ...] = ()
    count: int = 1
    kind: BreakKind = ""
    name: str = ""

    @property
    def what(self) -> str:
        """What tells it apart from other breaks at its place."""
        return self.kind or self.reason


@dataclass(frozen=True)
class Guard:
    """A condition that a compiled frame relies on.

    ``variable`` is the user's name that it protects (``x``; ``model`` for
    ``model.layers[0].weight``), ``source`` the whole expression, ``kind`` torch's guard type,
    ``code`` torch's own text. ``subject`` is the source as the user would write it, ``expected``
    the value, type or length that it must keep. Of a tensor there are ``dtype``, ``device`` and
    the captured ``shape``, symbolic sizes as text. ``words`` is a sentence that an earlier version
    recorded; ``analysis.guards`` makes it now.
    """

    frame: str
    variable: str
    source: str
    kind: str
    words: str = ""
    code: tuple[str, ...] = ()
    line: SourceLine | None = None
    subject: str = ""
    expected: str = ""
    is_length: bool = False
    dtype: str = ""
    device: str = ""
    shape: tuple[str, ...] = ()
    requires_grad: bool = False


@dataclass(frozen=True)
class Recompile:
    """A guard that failed: what was expected, what came.

    ``prevented`` is true under ``run``, where the frame ran eagerly and was not compiled again.
    ``kind`` says what differed, as far as torch's text tells: ``subject`` is the expression that
    it was of, ``dimension`` the one whose size it was. ``bound`` says which side ``expected`` is
    of. Where the object is to be the same (``is_object``), ``actual`` is the name of the other one,
    and ``actual_type`` its type's. ``guard`` and values are for reading.
    """

    frame: str
    function: str
    guard: str
    variable: str
    expected: str
    actual: str
    line: SourceLine | None = None
    prevented: bool = False
    count: int = 1
    kind: RecompileKind = ""
    subject: str = ""
    dimension: int | None = None
    bound: Literal["", "least", "most"] = ""
    is_object: bool = False
    actual_type: str = ""


@dataclass(frozen=True)
class Fallback:
    """A stage that failed and fell back to eager.

    ``subject`` is the id of the frame, graph or partition in ``scope`` (partitions as
    ``graph:partition``), empty for the ``run`` as a whole. ``operator`` is empty where no single
    one is to blame. ``count`` is the number of times it happened in this run; a compile-time
    fallback that still holds counts 1. ``harmless`` says that nothing need be done about it.

    ``cause`` is ``recompile_limit`` where code was compiled as often as torch allows, ``loop``
    where a frame is not split since its own loop is around the place; else it is not distinguished.
    ``lack`` is what a backend that is not available lacks: its message without the lead.
    ``break_index`` is the index into ``Report.breaks`` of the break that gave the frame up, where
    one did.
    """

    stage: FallbackStage
    scope: FallbackScope
    subject: str
    operator: str
    exception: str
    message: str
    remedy: str
    count: int = 1
    line: SourceLine | None = None
    harmless: bool = False
    cause: FallbackCause = ""
    lack: str = ""
    break_index: int | None = None


@dataclass(frozen=True)
class Bytecode:
    """A frame's bytecode as Python compiled it and as Dynamo rewrote it (``dis`` text)."""

    frame: str
    before: str
    after: str


@dataclass(frozen=True)
class Report:
    """The record of one run of a cell, function or module.

    ``cell`` is the text that ran (``None`` for the Python API over a region). ``seconds`` is the
    wall time of the run, compilation included; ``compile_seconds`` the part spent compiling,
    ``profile_seconds`` that spent timing operations (``--profile``), and ``race_seconds`` that
    spent on ``auto``'s races in calls of graphs (no graph's ``run_seconds`` has them).
    ``interrupted`` and ``error`` (the user's own exception, as one line) tell how it ended, and
    ``stopped_at`` at which line of the cell (0 where it is not known). ``refused`` says that the
    error is Dynamo's: one graph was asked for, and the code breaks it.
    """

    mode: Mode
    backend: str
    title: str
    cell: CodeBlock | None
    seconds: float
    compile_seconds: float
    frames: tuple[Frame, ...] = ()
    graphs: tuple[Graph, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    guards: tuple[Guard, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    bytecode: tuple[Bytecode, ...] = ()
    error: str = ""
    interrupted: bool = False
    versions: tuple[tuple[str, str], ...] = ()
    profile_seconds: float = 0.0
    refused: bool = False
    stopped_at: int = 0
    race_seconds: float = 0.0
    schema: int = SCHEMA_VERSION

    @property
    def run_seconds(self) -> float:
        """The part of the run that was neither compiling, timing operations nor racing."""
        apart = self.compile_seconds + self.profile_seconds + self.race_seconds
        return max(self.seconds - apart, 0.0)

    def __repr__(self) -> str:
        """One line; ``dynamo_ext.widgets.display_report`` shows it all."""
        counts = (
            f"{len(getattr(self, name))} {name}"
            for name in ("graphs", "breaks", "guards", "recompiles", "fallbacks")
        )
        what = " ".join(part for part in (self.mode, self.backend) if part)
        return f"<Report of {self.title}: {what}, {', '.join(counts)}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, ready for ``json.dumps``."""
        record: dict[str, Any] = dataclasses.asdict(self)
        return record

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Report:
        """Rebuild a report from ``to_dict`` or from its JSON.

        Raises
        ------
        RecordFormatError
            When the record is not a report or has a schema version that is not known.
        """
        if isinstance(record, dict) and record.get("schema") == 1:
            # It has some facts in sentences alone: their fields get the defaults, for unknown.
            record = {**record, "schema": SCHEMA_VERSION}
        return structured(cls, record, SCHEMA_VERSION, "a dynamo_ext report", "Report.to_dict()")
