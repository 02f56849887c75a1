"""The vocabulary of a run: frozen dataclasses of plain strings and numbers.

A record holds no tensor, module, code object or exception, so keeping a report alive keeps
nothing else alive. ``to_dict``/``from_dict`` go to JSON and back under ``SCHEMA_VERSION``.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from dynamo_ext.errors import RecordFormatError

SCHEMA_VERSION = 1

T = TypeVar("T")

Mode = Literal["optimize", "run", "explain"]
FrameOutcome = Literal["compiled", "reused", "eager", "skipped", "failed"]
FallbackStage = Literal["capture", "unavailable", "unsupported", "lower", "verify", "run"]
FallbackScope = Literal["run", "frame", "graph", "partition"]

NOTHING = "Nothing needs to be done"
"""How a remedy begins where nothing could be gained."""


@dataclass(frozen=True)
class Availability:
    """Whether a backend can run here.

    ``version`` is the engine's, ``device`` what it would run on (``cpu``, ``cuda:0``).
    Where ``available`` is false, ``reason`` says what is missing and ``remedy`` what mends it
    (a pip command, or the hardware it needs).
    """

    available: bool
    version: str = ""
    device: str = ""
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class OptionSpec:
    """One ``--opt`` of a backend: its default gives the type that text is converted to.

    ``choices`` are the texts, ``least`` and ``most`` the bounds of a number that may be given.
    """

    name: str
    default: bool | int | float | str
    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class BackendInfo:
    """A row of ``%dynamo backends``."""

    name: str
    origin: str
    summary: str
    availability: Availability
    options: tuple[OptionSpec, ...] = ()


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's source.

    ``file`` is the name in the code object; ``in_cell`` says that it is the cell that was run,
    in which case ``line`` counts the ``%%dynamo`` line as line 1, as the editor does. ``cell`` is
    what the notebook calls another cell (``In[5]``), where it is known.
    """

    file: str
    line: int
    function: str = ""
    code: str = ""
    in_cell: bool = False
    cell: str = dataclasses.field(default="", compare=False)


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
    parameters and buffers that became constants. Seconds are wall time.
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


@dataclass(frozen=True)
class Contestant:
    """One backend in the race for a graph.

    ``outcome`` is ``won``, ``slower``, ``same`` (no faster than eager within noise), ``eager``
    (nothing of it ran in the engine), ``wrong``, ``failed`` or ``crashed``; ``reason`` says why it
    lost. ``seconds`` is the median of one call, ``speedup`` over eager with its 95 % interval,
    ``error`` the largest relative error against eager; 0.0 where not measured.
    """

    backend: str
    outcome: str
    seconds: float = 0.0
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0
    error: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Rival:
    """What the winners of races were timed against together: eager, or one backend for all.

    ``speedup`` is how many times faster the winners were, with its 95 % interval.
    """

    name: str
    speedup: float
    low: float
    high: float


@dataclass(frozen=True)
class Confirmation:
    """Graphs that run one after another, timed together in the user's calls after their races.

    ``graphs`` counts them; ``kept`` is ``mix`` (each its own winner) or the rival that was faster;
    ``rounds`` says how often each was timed, at most: who was clearly behind was timed less often.
    """

    graphs: int
    kept: str
    rounds: int
    rivals: tuple[Rival, ...] = ()


@dataclass(frozen=True)
class Contest:
    """How ``auto`` chose the backend of a graph.

    ``remembered`` says that it was not raced but known from an earlier race, made ``raced_on``
    (a date). ``seconds`` is what the race took, compiling every contestant included.
    ``confirmation`` is there once the winner was timed in the user's own calls, together with
    those of the graphs that run before and after this one.
    """

    winner: str
    contestants: tuple[Contestant, ...] = ()
    remembered: bool = False
    raced_on: str = ""
    rounds: int = 0
    seconds: float = 0.0
    note: str = ""
    confirmation: Confirmation | None = None


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
    ``backward_untimed`` says that autograd would run its operations' one by one, and nobody knows.
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
    contest: Contest | None = None
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
    run. ``reason`` says why a frame was skipped, failed or ran eagerly. ``guard_seconds`` is what
    one check of its guards takes with warm caches, as each call of the compiled code does, timed
    when it was compiled (0.0 where it was not).
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
    guard_seconds: float = 0.0

    @property
    def is_cell(self) -> bool:
        """Whether it is of the cell's own statements, and not of a function that stands there."""
        return self.in_cell and self.name == "<module>"


@dataclass(frozen=True)
class GraphBreak:
    """Why a frame's capture ended. Equal breaks are kept once, with ``count``.

    ``registry_id`` (``gb0059``) is torch's graph-break registry; ``link`` its page there.
    """

    registry_id: str
    reason: str
    explanation: str
    hints: tuple[str, ...]
    link: str
    line: SourceLine | None
    stack: tuple[SourceLine, ...] = ()
    count: int = 1


@dataclass(frozen=True)
class Guard:
    """A condition that a compiled frame relies on.

    ``variable`` is the user's name that it protects (``x``; ``model`` for
    ``model.layers[0].weight``), ``source`` the whole expression, ``kind`` torch's guard type,
    ``code`` torch's own text, ``words`` the condition in plain English.
    """

    frame: str
    variable: str
    source: str
    kind: str
    words: str
    code: tuple[str, ...] = ()
    line: SourceLine | None = None


@dataclass(frozen=True)
class Recompile:
    """A guard that failed: what was expected, what came.

    ``prevented`` is true under ``run``, where the frame ran eagerly and was not compiled again.
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


@dataclass(frozen=True)
class Fallback:
    """A stage that failed and gave way to eager.

    ``subject`` is the id of the frame, graph or partition in ``scope`` (partitions as
    ``graph:partition``), empty for the ``run`` as a whole. ``operator`` is empty where no single
    one is to blame. ``count`` is the number of times it happened in this run; a compile-time
    fallback that still holds counts 1.
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


@dataclass(frozen=True)
class Bytecode:
    """A frame's bytecode as Python compiled it and as Dynamo rewrote it (``dis`` text)."""

    frame: str
    before: str
    after: str


@dataclass(frozen=True)
class CodeBlock:
    """User source that the report can show, with the line its first line has in the editor."""

    name: str
    file: str
    first_line: int
    source: str


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
            When the record is no report or has another schema version.
        """
        return structured(cls, record, SCHEMA_VERSION, "a dynamo_ext report", "Report.to_dict()")


def structured(cls: type[T], record: Any, version: int, noun: str, maker: str) -> T:
    """A record of ours from plain dicts.

    Parameters
    ----------
    cls
        The dataclass of the whole record, which has a field ``schema``.
    record
        What ``to_dict`` or its JSON gave.
    version
        The schema that this version reads.
    noun, maker
        What it should be and what makes it, for messages.

    Raises
    ------
    RecordFormatError
        When it is none, or has another schema version.
    """
    import cattrs

    schema = record.get("schema") if isinstance(record, dict) else None
    if schema != version:
        msg = f"This record has schema {schema!r}, and this version reads {version}."
        raise RecordFormatError(msg, "Open it with the version that wrote it.")
    try:
        return cattrs.structure(record, cls)
    except cattrs.BaseValidationError as error:
        detail = "; ".join(cattrs.transform_error(error)[:3])
        msg = f"This is not {noun}: {detail}."
        raise RecordFormatError(msg, f"Pass a dict that {maker} made.") from error
