"""The record of one run."""

from __future__ import annotations

import dataclasses
import importlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dynamo_ext.records.autotune import GraphRace
from dynamo_ext.records.common import CodeBlock, SourceLine, saved, structured

if TYPE_CHECKING:
    from pathlib import Path

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

    ``dtype`` and ``shape`` are the result's where it is one tensor; symbolic sizes are text
    (``s0``). ``line`` is the line of the user's code that asked for it. ``seconds`` is
    its time in eager, with ``--profile``. ``modules`` are those that it is of, outermost first, as
    path and class. ``called`` is the innermost line of the user's code where ``line`` only led to
    it: of a function that the cell calls.
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
    modules: tuple[tuple[str, str], ...] = ()
    called: SourceLine | None = None

    @property
    def module(self) -> str:
        """The path of the innermost module that it is of, as ``model.layers.0.norm``, or empty."""
        return self.modules[-1][0] if self.modules else ""


@dataclass(frozen=True)
class Partition:
    """The part of a graph that one engine runs.

    ``engine`` is a backend's name, or ``eager``. ``operations`` counts the call nodes of the
    normalised graph in it, ``targets`` names them (in order, with repeats); ``captured`` are the
    captured operations that these came of, where known. ``reason`` says why a part is eager; with
    ``short`` its operations are too few in a row (``min_partition``). ``frozen`` counts parameters
    and buffers that became constants. Seconds are wall time. ``role`` is its pass of the graph,
    where known.
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

    ``operations`` has every node, placeholders and output included. ``calls`` and ``run_seconds``
    are this run's; ``compile_seconds`` those of the run that compiled it (``compiled_now``).
    ``ended_by`` is the index into ``Report.breaks``, or ``None`` where the function returned.
    ``normalised`` counts the call nodes after normalisation, forward and backward (0 for backends
    that take the graph whole), without the ``folded`` ones, computed when it was compiled.
    ``untimed`` is why its operations' times are not known. ``backward_seconds`` are not in
    ``run_seconds``; ``backward_untimed``: autograd runs its operations one by one.
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

    ``compile_seconds`` covers tracing, backend and guards, in this run. ``reason`` says why it was
    skipped, failed or ran eagerly. ``turn`` is the line of the cell at which it begins where it is
    of a loop's body and plain Python, else 0.
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
    tells common breaks apart that have no page, by what torch cannot trace; empty for others.
    ``name`` is the name that is not defined, or the function that tells torch how to compile.
    ``explanation`` and ``hints`` are torch's own words. ``leaves_loop`` says that at ``line`` is
    decided whether a loop goes on.
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
    leaves_loop: bool = False

    @property
    def what(self) -> str:
        """What tells it apart from other breaks at its place."""
        return self.kind or self.reason


@dataclass(frozen=True)
class Guard:
    """A condition that a compiled frame relies on.

    ``variable`` is the user's name that it protects (``model`` for ``model.layers[0].weight``),
    ``source`` the whole expression, ``subject`` the same as the user would write it, ``kind``
    torch's guard type, ``code`` torch's text. ``expected`` is the value, type or length that it
    must keep. Tensors have ``dtype``, ``device``, ``shape``. ``words`` is a sentence of an earlier
    version.
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

    ``prevented``: the frame ran eagerly (under ``run``). ``kind`` says what differed, ``subject``
    of which expression, ``dimension`` which size; ``bound`` which side ``expected`` is of. Where
    another object came (``is_object``), ``actual`` is its name and ``actual_type`` its type's.
    ``resumed``: it is of the code after a graph break, whose inputs the code before it made.
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
    resumed: bool = False


@dataclass(frozen=True)
class Fallback:
    """A stage that failed and fell back to eager.

    ``subject`` is the id of the frame, graph or partition (``graph:partition``), empty for the run.
    ``operator`` is one that is to blame. ``count`` is the number of times in this run; a
    compile-time fallback that still holds counts 1. ``harmless``: nothing need be done. ``cause``
    is ``recompile_limit``, or ``loop`` where a loop around the place keeps the frame from being
    split. ``lack`` is what an unavailable backend lacks. ``break_index`` is that into
    ``Report.breaks`` of the break that gave the frame up.
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

    ``cell`` is the text that ran, if any, ``functions`` the user's others that operations or breaks
    are of. ``seconds`` is the wall time of the run: of that,
    ``compile_seconds`` went to compiling, ``profile_seconds`` to timing operations (``--profile``;
    meanwhile other programs kept ``profile_busy_cores`` busy), ``race_seconds`` to ``auto``'s
    races. ``interrupted`` and ``error`` (the user's own exception, as one line) say how it ended,
    ``stopped_at`` at which line of the cell (or 0). ``refused``: the error is Dynamo's, since one
    graph was asked for.
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
    profile_busy_cores: float = 0.0
    functions: tuple[CodeBlock, ...] = ()
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

    def _repr_html_(self) -> str:
        """Its static form, for any front end that shows html."""
        text: str = self._in_form("static", "html")
        return text

    def to_markdown(self) -> str:
        """Verdict, code, breaks, failed guards, fallbacks, versions: for an issue, say."""
        text: str = self._in_form("markdown")
        return text

    def to_html(self) -> str:
        """All of it as a page that needs neither a kernel nor a network."""
        text: str = self._in_form("static", "page")
        return text

    def plot(self, axes: Any = None) -> Any:
        """Draw seconds of each part of the run as bars on matplotlib's ``axes``, which it returns.

        Without ``axes`` they are new ones, in a figure of pyplot's.

        Raises
        ------
        OptionError
            Where matplotlib is not installed.
        """
        return self._in_form("plot", "draw", axes)

    def _in_form(self, module: str, form: str = "text", *args: object) -> Any:
        # By name: what shows records imports them.
        shown = importlib.import_module(f"dynamo_ext.widgets.report.{module}")
        return getattr(shown, form)(self, *args)

    def save(self, path: str | Path) -> Path:
        """Write ``.html``, ``.json`` (``from_dict`` reads it back), ``.md`` or ``.txt``.

        Raises
        ------
        OptionError
            For another ending.
        """
        forms = {
            ".html": self.to_html,
            ".json": lambda: json.dumps(self.to_dict()),
            ".md": self.to_markdown,
            ".txt": lambda: self._in_form("static"),
        }
        return saved(path, "A report", forms)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, ready for ``json.dumps``."""
        record: dict[str, Any] = dataclasses.asdict(self)
        return record

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Report:
        """A report from ``to_dict`` or its JSON; else raises ``RecordFormatError``."""
        if isinstance(record, dict) and record.get("schema") == 1:
            # It has some facts in sentences alone: their fields get the defaults, for unknown.
            record = {**record, "schema": SCHEMA_VERSION}
        return structured(cls, record, SCHEMA_VERSION, "a dynamo_ext report", "Report.to_dict()")
