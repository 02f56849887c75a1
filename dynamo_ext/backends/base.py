"""The protocol of a backend, its options, what it is asked for and what it gives back.

``pipeline`` has the stages (normalise, freeze, partition, lower, verify, run), and reads nothing of
a backend but what ``Backend`` names. ``CompilerFn`` is TorchDynamo's own contract for a backend
callable.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dynamo_ext.backends.journal import Journal
from dynamo_ext.records.common import Availability, OptionSpec
from dynamo_ext.timing.first_run import FirstRun

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node


CompiledFn = Callable[..., Sequence[Any]]
CompilerFn = Callable[["GraphModule", Sequence[Any]], Callable[..., Any]]
Inputs = Sequence["torch.Tensor"]
Options = Mapping[str, Any]


FREEZE = OptionSpec("freeze", default=True, help="make weights constants under no_grad")
VERIFY = OptionSpec("verify", default=True, help="compare the first call of each engine with eager")
VERIFY_GRAPH = OptionSpec(
    "verify", default=True, help="compare the first call of each graph with eager"
)
MIN_PARTITION = OptionSpec("min_partition", 3, "fewest operations of a partition", least=0)
DIVIDE = OptionSpec(
    "divide",
    default=True,
    help="cut graphs where a result is computed from another, so that autograd finds both",
)
FIRST_RUN = OptionSpec(
    "first_run",
    None,
    "seconds of compiling and checking after which eager runs what is not begun; none: no limit",
    least=0.01,
    optional=float,
)
COMMON = (VERIFY, MIN_PARTITION, FIRST_RUN)
PARTITION_OPTIONS = (FREEZE, *COMMON, DIVIDE)
"""Of every engine that takes partitions; ``COMMON`` of those that freeze otherwise, too."""
WHOLE_GRAPH_OPTIONS = (VERIFY_GRAPH, DIVIDE, FIRST_RUN)
"""Of every compiler that takes graphs whole."""

THREADS = OptionSpec("threads", 0, "its threads; 0 means as many as torch uses", least=0, most=1024)


@dataclass(frozen=True)
class Support:
    """Whether an engine takes one node, and if not, why."""

    supported: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.supported


class StayEager(Exception):  # noqa: N818 - a decision, no error
    """Raised by a backend that would rather leave a graph, or a part of one, in eager.

    From ``decompositions`` the whole captured graph stays as it is, from ``lower`` the part that
    was to be lowered. ``supports`` has its own way to refuse one operation.

    Parameters
    ----------
    reason
        One sentence, which the report shows as an ``unsupported`` fallback; empty where there is
        nothing to tell.
    remedy
        What the user can do about it, if anything.
    harmless
        Whether eager is the right place for it: it is reported, and never warned of.
    """

    def __init__(self, reason: str = "", remedy: str = "", *, harmless: bool = False) -> None:
        self.reason = reason
        self.remedy = remedy
        self.harmless = harmless
        super().__init__(reason)


class LoweringError(RuntimeError):
    """An engine does not take an operation or a partition.

    ``message`` is cut after 300 characters; ``operator`` is the operation that is refused, if any.
    """

    def __init__(self, message: str, operator: str = "") -> None:
        self.operator = operator
        super().__init__(message[:300])


class RunEagerlyError(RuntimeError):
    """An engine cannot run this call: torch raises an error there, or gives something else."""


class RunThisCallEagerlyError(RunEagerlyError):
    """The same, where nothing follows for other calls, however often it is raised."""


@dataclass(frozen=True)
class LoweringRequest:
    """A graph to lower, and all that a backend may go by.

    ``inputs`` are examples, real or fake, one for each placeholder. ``calibration`` has the inputs
    of each call that calibrates int8, and ``full_precision`` the names of products that stay in the
    code's own precision. Fallbacks in the ``journal`` are in the graph's report. ``budget`` has
    the seconds that are left for compiling; what takes longer is not stopped.
    """

    graph: GraphModule
    inputs: Inputs
    options: Options
    calibration: Sequence[Sequence[Any]] = ()
    full_precision: Collection[str] = ()
    journal: Journal = field(default_factory=partial(Journal, warns=True))
    budget: FirstRun = field(default_factory=FirstRun)


@dataclass(frozen=True)
class Lowered:
    """A lowered graph: ``run`` takes its inputs, and gives a sequence of outputs.

    ``lowered_operations`` counts operations of products that run in a lower precision, if known.
    ``program`` is what ``Backend.restored`` makes the same of in a later process, if it can; what
    that made comes ``from_disk``. ``load``, if there is one, has to end before the first call: it
    may run in a thread of its own.
    """

    run: CompiledFn
    lowered_operations: int | None = None
    program: bytes | None = None
    from_disk: bool = False
    load: Callable[[], None] | None = None


@runtime_checkable
class Backend(Protocol):
    """A backend: all that is read of one. A class of your own may derive from it.

    ``name``, ``supports`` and ``lower`` (or ``lower_for``) are what a backend must say; the rest
    has the values of an engine that is there and takes partitions. ``whole_graph`` backends take
    the captured graph as Dynamo hands it over (torch's own compilers); the others receive
    partitions of the functional ATen graph.

    A backend that does not derive from this has ``name``, ``summary``, ``extra``, ``whole_graph``,
    ``options``, ``probe``, ``supports`` and ``lower``; of the rest, what it lacks has the value
    given here.
    """

    name: str
    summary: str = ""
    extra: str = ""
    """The extra of this package that installs the engine."""

    packages: Sequence[str] = ()
    """Modules without which the backend is not available; ``registry.probe`` looks for them."""

    races: bool = False
    """Whether ``auto`` tries it unless ``candidates`` says otherwise."""

    whole_graph: bool = False
    options: Sequence[OptionSpec] = PARTITION_OPTIONS
    dynamic_shapes: bool = False
    """One engine serves every size; without it each shape gets one, up to a bound."""

    lowered_by_autocast: bool = False
    """In a lower precision, a backend that takes partitions gets those of the graph under
    autocast."""

    through_aot: bool = False
    """A ``whole_graph`` backend goes through AOTAutograd: it gets the graph without results that
    are views of inputs, which each call makes of its own inputs."""

    self_verifying: bool = False
    """Other backends' compilers made its results, and compared them with eager."""

    unsettled_calls: int = 0
    """Calls so far whose compiled form may not be the final one. A comparison times the backend
    once this count no longer grows."""

    fork_unsafe_runtime: str = ""
    """Name of a runtime that must not be used after ``os.fork()``. Partitions that were compiled
    before a fork run eagerly in the child."""

    def probe(self) -> Availability:
        """Installed, which version, which device; if not, the reason and the remedy."""
        return Availability(available=True)

    def lacks_precision(self, precision: str) -> str:  # noqa: ARG002
        """Why this machine cannot compute in one of the option ``precision``, as one sentence."""
        return ""

    def decompositions(
        self,
        table: dict[Any, Callable[..., Any]],
        *,
        training: bool,  # noqa: ARG002
    ) -> dict[Any, Callable[..., Any]]:
        """Those to normalise with, from those to core ATen; asked once for each captured graph."""
        return table

    @abstractmethod
    def supports(self, node: Node) -> Support:
        """Whether the engine takes this node of a normalised graph; asked before lowering."""
        ...

    def lower(self, graph: GraphModule, example_inputs: Inputs, options: Options) -> CompiledFn:
        """Turn a graph into a callable with the same inputs and a sequence of outputs.

        Raises anything: the pipeline records it and runs the graph eagerly. ``StayEager`` is for
        reasons that are not failures.
        """
        return self.lower_for(LoweringRequest(graph, example_inputs, options)).run

    def lower_for(self, request: LoweringRequest) -> Lowered:
        """What the pipeline asks; defined in place of ``lower`` where more of it is gone by."""
        return Lowered(self.lower(request.graph, request.inputs, request.options))

    def program_versions(self, options: Options) -> str:  # noqa: ARG002
        """What its programs hold for: its code and packages; nothing where it keeps none."""
        return ""

    def restored(self, request: LoweringRequest, program: bytes) -> Lowered:  # noqa: ARG002
        """What a program was made from, with the weights of this request's graph; may raise."""
        return self.lower_for(request)


def fact(backend: Backend, name: str) -> Any:
    """An attribute of a backend that need not derive from ``Backend``: its own, or the default."""
    default = getattr(Backend, name, None)
    return getattr(backend, name, partial(default, backend) if callable(default) else default)


def unavailable(reason: str, remedy: str, version: str = "") -> Availability:
    """Of a backend that cannot run here."""
    return Availability(available=False, version=version, reason=reason, remedy=remedy)


def in_torch() -> Availability:
    """Of a backend that every torch has."""
    import torch

    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    return Availability(available=True, version=str(torch.__version__), device=device)


class WholeGraphBackend(Backend):
    """Takes the captured graph as it is, and every operation in it."""

    whole_graph = True
    options: Sequence[OptionSpec] = (VERIFY_GRAPH,)

    def probe(self) -> Availability:
        """Every torch has it, unless a subclass says otherwise."""
        return in_torch()

    def supports(self, node: Node) -> Support:  # noqa: ARG002
        """Everything."""
        return Support(supported=True)
