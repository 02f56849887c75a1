"""One case under one engine: compile it, call it, hold it against eager."""

from __future__ import annotations

import copy
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.fx import Graph, GraphModule

from benchmarks.operators.row import Row, Verdict
from dynamo_ext.backends.base import Support
from dynamo_ext.backends.compile_context import CompileContext
from dynamo_ext.backends.journal import Journal
from dynamo_ext.backends.pipeline import compilation
from dynamo_ext.backends.torch_private import backend_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.operators.samples import Case
    from dynamo_ext.backends.base import Backend, CompiledFn, CompilerFn, Options

CALLS = 4
"""Calls of each case: some engines profile in the first and run other code in the third."""


_ORDER_LEFT_OPEN = ("argsort", "sort", "topk")


class _Tolerance(NamedTuple):
    """``|engine - eager| <= floor + relative * |eager| + scale * max|eager|``, by element."""

    relative: float
    scale: float
    floor: float


_EXACT = _Tolerance(0.0, 0.0, 0.0)
_SINGLE = _Tolerance(1e-4, 1e-5, 1e-5)
_DOUBLE = _Tolerance(1e-7, 1e-8, 1e-8)
_TOLERANCES = {
    torch.float32: _SINGLE,
    torch.complex64: _SINGLE,
    torch.float64: _DOUBLE,
    torch.complex128: _DOUBLE,
    torch.float16: _Tolerance(2e-3, 1e-3, 1e-5),
    torch.bfloat16: _Tolerance(1.6e-2, 8e-3, 1e-5),
    torch.complex32: _Tolerance(2e-3, 1e-3, 1e-5),
}


class _Normalised:
    """Takes everything and runs the normalised graph as it is: tells who made a mistake."""

    name = "normalised"
    summary = extra = ""
    whole_graph = False
    options = ()

    def __init__(self, engine: Backend) -> None:
        refine = getattr(engine, "decompositions", None)
        if refine is not None:
            self.decompositions = refine

    def supports(self, node: Any) -> Support:  # noqa: ARG002 - the protocol's
        return Support(supported=True)

    def lower(self, graph: GraphModule, example_inputs: Any, options: Any) -> CompiledFn:  # noqa: ARG002
        forward: CompiledFn = graph.forward
        return forward


def check(case: Case, engine: Backend, options: Options) -> Row:
    """Run a case in an engine and in eager, and compare.

    Parameters
    ----------
    case
        What to run.
    engine
        A partitioning backend.
    options
        Its resolved options; ``verify`` should be false, or mistakes are mended unseen.

    Returns
    -------
    Row
        Of any verdict but ``crash`` and ``timeout``, which only another process can see.
    """
    start = time.perf_counter()
    journal = Journal(case.key)

    def row(verdict: Verdict, reason: str = "", blame: str = "") -> Row:
        return Row(
            engine.name,
            case.operator,
            case.dtype,
            case.sample,
            verdict,
            reason,
            blame,
            journal.normalised,
            sum(p.operations for p in journal.partitions.values() if p.engine != "eager"),
            round(time.perf_counter() - start, 4),
        )

    def lowered(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return compilation.compile_graph(graph, inputs, CompileContext(engine, options, journal))

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            expected, after = _called(case, case.function)
        except Exception as error:  # noqa: BLE001 - eager itself refuses: there is nothing to compare
            return row("unsampled", _first_line(error))
        if not expected:
            return row("uncaptured", "It returns no tensor.")
        wrong = _compared(case, lowered, expected, after)
        if wrong:
            return row("wrong", wrong, _blame(case, engine, options, expected, after))
    return row(*_outcome(journal))


def _blame(
    case: Case,
    engine: Backend,
    options: Options,
    expected: Sequence[torch.Tensor],
    after: Sequence[torch.Tensor],
) -> str:
    """Who made the mistake: see ``Row``."""

    def normalised(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        plain: Any = _Normalised(engine)
        return compilation.compile_graph(graph, inputs, CompileContext(plain, options, Journal()))

    if not _compared(case, normalised, expected, after):
        return "engine"
    torchs = backend_registry.torch_backend("aot_eager")
    return "torch" if _compared(case, torchs, expected, after) else "normalisation"


def _outcome(journal: Journal) -> tuple[Verdict, str]:
    """The verdict on a right result."""
    fallbacks = list(journal.fallbacks.values())
    late = [f for f in fallbacks if f.stage in ("lower", "run") and f.scope == "partition"]
    if late:
        return "failed", f"{late[0].stage}: {late[0].exception}: {late[0].message}"
    if any(f.stage == "lower" for f in fallbacks):
        return "uncaptured", next(f.message for f in fallbacks if f.stage == "lower")
    if not journal.normalised:
        return "uncaptured", "Nothing is left to compute."
    taken = sum(p.operations for p in journal.partitions.values() if p.engine != "eager")
    refusals = "; ".join(sorted({f"{f.operator}: {f.message}" for f in fallbacks}))
    if not taken:
        return "eager", refusals
    return ("right", "") if taken == journal.normalised else ("partly", refusals)


def _compared(
    case: Case,
    compiler: CompilerFn,
    expected: Sequence[torch.Tensor],
    after: Sequence[torch.Tensor],
) -> str:
    """What is wrong with an engine's results, as a sentence; empty where nothing is."""
    graph = Graph()
    inputs = [graph.placeholder(f"x{i}") for i in range(len(case.tensors))]
    graph.output(graph.call_function(_named(case.function), tuple(inputs)))
    examples = copy.deepcopy(case.tensors)
    run = compiler(GraphModule({}, graph), examples)
    first: Sequence[torch.Tensor] = ()
    for call in range(CALLS):
        try:
            found, changed = _called(case, run)
        except Exception as error:  # noqa: BLE001 - eager gave a result, so this is a wrong one
            return f"It raised {type(error).__name__}: {_first_line(error)}"
        found = _ties_as_in_eager(case, found, expected)
        wrong = difference(found, expected, values=case.values)
        if not wrong and difference(changed, after):
            wrong = f"Inputs afterwards: {difference(changed, after)}"
        wrong = wrong or _sharing(found, changed, expected, after)
        if wrong:
            return f"Call {call}: {wrong}" if call else wrong
        first = first or found
    if case.values and difference(first, expected):
        return "A later call changed the first call's results."
    return ""


def _ties_as_in_eager(
    case: Case, found: tuple[torch.Tensor, ...], expected: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Results in which indices that differ in the order of equal elements alone are eager's.

    Torch leaves that order open, and on a processor with AVX-512 its own sort is not stable.
    """
    if case.operator not in _ORDER_LEFT_OPEN or len(found) != len(expected):
        return found
    pairs = zip(found, expected, strict=True)
    return tuple(want if _tied(got, want, case.tensors[0]) else got for got, want in pairs)


def _tied(got: torch.Tensor, want: torch.Tensor, ordered: torch.Tensor) -> bool:
    """Whether two tensors of indices, each without repetition, pick the same elements."""
    indices = got.dtype == want.dtype == torch.int64
    if not (indices and got.numel() and got.shape == want.shape and got.ndim == ordered.ndim):
        return False
    for dim in range(ordered.ndim):
        apart = bool(got.sort(dim).values.diff(dim=dim).all())
        if apart and int(got.min()) >= 0 and int(got.max()) < ordered.shape[dim]:
            return torch.equal(ordered.gather(dim, got), ordered.gather(dim, want))
    return False


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    # FX names a function in the code that it writes by these two.
    function.__module__, function.__name__ = "benchmarks.cases", "case"
    return function


def _called(
    case: Case, function: Callable[..., Any]
) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Results, and the inputs as the call left them; every call draws the same random numbers."""
    given = copy.deepcopy(case.tensors)
    torch.manual_seed(0)
    return tuple(function(*given)), given


def _sharing(
    found: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    eager_inputs: Sequence[torch.Tensor],
) -> str:
    """Memory that results share with each other or with inputs, and that eager's do not.

    The other way round, a copy where eager gives a view, is torch's own licence: whether
    ``contiguous`` or ``reshape`` copies is not promised.
    """
    everything, eagers = [*found, *inputs], [*expected, *eager_inputs]
    for i in range(len(found)):
        for j in range(i + 1, len(everything)):
            mine, theirs = (_touch(each[i], each[j]) for each in (everything, eagers))
            if mine and not theirs:
                other = f"output {j}" if j < len(found) else f"input {j - len(found)}"
                return f"Output {i} shares memory with {other}."
    return ""


def _touch(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.layout is not torch.strided or b.layout is not torch.strided:
        return False
    if not a.numel() or not b.numel():
        return False
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def difference(
    found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], *, values: bool = True
) -> str:
    """What differs, as one sentence: number, dtype, shape, layout, NaN or values.

    Stricter than the pipeline's own check of first calls, whose tolerance is for whole models.
    """
    if len(found) != len(expected):
        return f"{len(found)} results where eager gives {len(expected)}."
    for position, (got, want) in enumerate(zip(found, expected, strict=True)):
        for fact in ("dtype", "shape", "layout", "device"):
            mine, theirs = getattr(got, fact), getattr(want, fact)
            if mine != theirs:
                return f"Output {position}: {fact} {mine} where eager gives {theirs}."
        wrong = _values(got, want) if values and want.numel() else ""
        if wrong:
            return f"Output {position}: {wrong}"
    return ""


def _values(got: torch.Tensor, want: torch.Tensor) -> str:
    if want.layout is not torch.strided:
        got, want = got.to_dense(), want.to_dense()
    allowed = _TOLERANCES.get(want.dtype, _EXACT)
    if want.dtype is torch.complex32:
        # Torch cannot even compare these.
        got, want = got.to(torch.complex64), want.to(torch.complex64)
    if torch.equal(got, want):
        return ""
    if allowed is _EXACT:
        return f"{int((got != want).sum())} of {want.numel()} values differ."
    wide = torch.complex128 if want.is_complex() else torch.float64
    mine, theirs = got.to(wide), want.to(wide)
    finite = torch.isfinite(theirs)
    size = torch.where(finite, theirs.abs(), 0.0)
    limit = allowed.floor + allowed.relative * size + allowed.scale * size.max()
    same = (mine == theirs) | (mine.isnan() & theirs.isnan())
    bad = ~same & ~(finite & ((mine - theirs).abs() <= limit))
    if not bad.any():
        return ""
    place = tuple(int(i) for i in bad.nonzero()[0])
    count = f"{int(bad.sum())} of {want.numel()} values"
    return (
        f"{count} differ, first {got[place].item():.9g} where eager gives {want[place].item():.9g}."
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
