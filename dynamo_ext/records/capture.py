"""What Dynamo made of Python code: frames, guards, graph breaks and recompiles."""

from dataclasses import dataclass
from typing import Literal

from dynamo_ext.records.common import SourceLine

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
    must keep. Tensors have ``dtype``, ``device``, ``shape``.
    """

    frame: str
    variable: str
    source: str
    kind: str
    code: tuple[str, ...] = ()
    line: SourceLine | None = None
    subject: str = ""
    expected: str = ""
    is_length: bool = False
    dtype: str = ""
    device: str = ""
    shape: tuple[str, ...] = ()
    requires_grad: bool = False


BETWEEN_GRAPHS = "between graphs"
"""The ``variable`` of a value without a name: a graph break divides its expression."""


@dataclass(frozen=True)
class Recompile:
    """A guard that failed: what was expected, what came.

    ``prevented``: the frame ran eagerly (under ``run``). ``kind`` says what differed, ``subject``
    of which expression, ``dimension`` which size; ``bound`` which side ``expected`` is of. Where
    another object came (``is_object``), ``actual`` is its name and ``actual_type`` its type's.
    ``resumed``: it is of the code after a graph break, whose inputs the code before it made.
    ``compile_seconds`` are those of all ``count``, 0 where they are not known.
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
    compile_seconds: float = 0.0


@dataclass(frozen=True)
class LoopTurns:
    """A loop of which some turns were timed captured, and some in Python.

    ``line`` is where it begins in the cell; 0 for a library's, in whose Python turns eager ran the
    graphs. ``turns`` are those of this run that ran captured, 0 where Python is faster; ``plain``
    are the run's seconds in turns that ran in Python. ``captured`` and ``python`` are seconds of
    one turn, measured by an ``earlier`` kernel or by this one.
    """

    line: int
    turns: int
    captured: float
    python: float
    plain: float = 0.0
    earlier: bool = False

    @property
    def place(self) -> str:
        """The loop as a report names it."""
        return f"loop at line {self.line}" if self.line else "loop outside of the cell"
