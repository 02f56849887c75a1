"""Captured graphs, their operations, and which engine runs which part."""

import re
from dataclasses import dataclass
from typing import Literal

from dynamo_ext.records.autotune import GraphRace
from dynamo_ext.records.common import SourceLine

PartitionRole = Literal["inference", "forward", "backward"]

_PARAMETER = re.compile(r"(?:^|_)(?:parameters|buffers)_")


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

    @property
    def computes(self) -> bool:
        """Whether it is a call of a function, method or module."""
        return self.opcode.startswith("call_")

    @property
    def is_parameter(self) -> bool:
        """Whether it only brings a weight or a buffer in."""
        named = self.opcode == "placeholder" and bool(_PARAMETER.search(self.name))
        return named or self.opcode == "get_attr"

    @property
    def result(self) -> str:
        """The result's type as ``float32[8, s0]``; empty where it is not a tensor."""
        shape = "" if self.shape is None else f"[{', '.join(self.shape)}]"
        return self.dtype.removeprefix("torch.") + shape


@dataclass(frozen=True)
class Partition:
    """The part of a graph that one engine runs.

    ``engine`` is a backend's name, or ``eager``. ``operations`` counts the call nodes of the
    normalised graph in it, ``targets`` names them (in order, with repeats); ``captured`` are the
    captured operations that these came of, where known. ``reason`` says why a part is eager; with
    ``short`` its operations are too few in a row (``min_partition``). ``frozen`` counts parameters
    and buffers that became constants, ``calibrated`` the calls that int8's ranges are from. Seconds
    are wall time. ``role`` is its pass of the graph, where known. The last engine was loaded
    ``from_disk``, where an earlier process kept its program.
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
    calibrated: int = 0
    from_disk: bool = False


@dataclass(frozen=True)
class KeptOperation:
    """A product that stays in the code's precision in a partition that is computed in int8.

    ``name`` is that of the captured ``Operation``. ``error_without`` is the largest relative error
    of a result (root mean square) where some of those before it are kept, and ``error`` that where
    all are. ``None``: a result is not finite then, or not equal where it has to be.
    """

    name: str
    error_without: float | None
    error: float


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
    ``pairs`` are seconds of a further call and of one in eager, one after the other, in this run
    or an earlier one, with the backward passes if it ``is_trained``; ``faults`` says what eager's
    took for memory, ``unpaired`` why it has none. ``kept`` are those of its products that are not
    lowered with the others; ``lowered`` are the operations of products that a call runs in the
    lower precision that was asked for, ``None`` where unknown.
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
    pairs: tuple[tuple[float, float], ...] = ()
    faults: str = ""
    is_trained: bool = False
    unpaired: str = ""
    kept: tuple[KeptOperation, ...] = ()
    lowered: int | None = None

    @property
    def seconds(self) -> float:
        """What its calls took in this run, with their backward passes."""
        return self.run_seconds + self.backward_seconds

    @property
    def operation_seconds(self) -> float:
        """What its operations take in eager, one by one; 0.0 where that was not asked for."""
        return sum(op.seconds for op in self.operations)

    @property
    def operation_count(self) -> int:
        """Nodes that compute: calls of functions, methods and modules."""
        # Asked so often that a property's call would show.
        return sum(op.opcode.startswith("call_") for op in self.operations)

    @property
    def ran_in_engine(self) -> int:
        """Normalised operations that an engine took; 0 for whole-graph backends."""
        return sum(p.operations for p in self.partitions if p.engine != "eager")
