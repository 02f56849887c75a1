"""Backends that take a captured graph whole: torch's own, and any callable of the user's.

Such a graph is not functional: it may change its inputs and draw random numbers. So the check
of its first call runs eager on copies, and only counts where no random number was drawn. Until a
call has gone well, what it may change is kept: a failed one is undone, and eager takes over. From
then on the compiler's exception is raised where the graph may have such effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import crash_records, effects
from dynamo_ext.backends.base import fact
from dynamo_ext.backends.fx_graph import held_tensors
from dynamo_ext.backends.pipeline.input_views import apart
from dynamo_ext.backends.undo import Undo
from dynamo_ext.interruptions import pass_on
from dynamo_ext.numerics import tolerance
from dynamo_ext.torch_private import dispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.fx import GraphModule

    from dynamo_ext.backends.crash_records import Attempt
    from dynamo_ext.backends.journal import Journal
    from dynamo_ext.backends.pipeline.runner import CompileContext

RUN_FAILURES = 3
"""Failed calls after which a graph stays in eager."""


def compiled(
    graph: GraphModule, example_inputs: Sequence[Any], context: CompileContext
) -> Callable[..., Any]:
    """Hand a graph to a backend as it is; whatever that raises is raised.

    A backend that returns the graph's own ``forward`` gets no wrapper, so ``eager`` costs nothing;
    nor does one that is ``self_verifying``, because other backends made what it returns.
    """
    backend, options, journal = context.backend, context.options, context.journal
    if fact(backend, "through_aot"):
        run = apart(graph, lambda rest: backend.lower(rest, example_inputs, options))
    else:
        run = backend.lower(graph, example_inputs, options)
    if not callable(run):
        message = f"The backend returned {type(run).__name__}, which cannot be called."
        journal.add_fallback("lower", "graph", message=message)
        return graph.forward
    if run == graph.forward or run is graph:
        return graph.forward
    if fact(backend, "self_verifying"):
        return run
    check = bool(options.get("verify", False)) and not _differentiates(graph)
    return _Whole(graph, run, journal, check=check, attempt=context.attempt).call


_LEVELS = frozenset({"_grad_increment_nesting", "_jvp_increment_nesting"})


def _differentiates(graph: GraphModule) -> bool:
    """Whether a graph enters derivatives of ``torch.func``.

    A check runs it without gradients; where that raises, the levels it has entered stay.
    """
    return any(getattr(node.target, "__name__", "") in _LEVELS for node in graph.graph.nodes)


class _Whole:
    """A compiled whole graph at run time."""

    def __init__(
        self,
        graph: GraphModule,
        run: Callable[..., Any],
        journal: Journal,
        *,
        check: bool,
        attempt: Attempt | None = None,
    ) -> None:
        self._eager = graph.forward
        self._run = run
        self._attempt = attempt
        self._journal = journal
        self._check = check
        self._failures = 0
        self._proven = False
        self._effects = effects.of_graph(graph)
        # An optimizer's weights are not inputs of its graph: the graph holds them.
        self._held = held_tensors(graph) if self._effects.changes else []

    def call(self, *args: Any) -> Any:
        if not self._proven:
            return self._first(args)
        try:
            return self._run(*args)
        except Exception as error:
            pass_on(error)
            if any(self._effects) or dispatch.ends_recomputation(error):
                # Some of its effects may have come about: run again, it would have them twice.
                raise
            return self._failed(error, args)

    def _first(self, args: Sequence[Any]) -> Any:
        """A call whose effects can be undone, until one has gone well."""
        undo = None
        if any(self._effects):
            undo = Undo([*args, *self._held], draws=self._effects.draws)
        expected = self._expected(args, undo) if self._check else None
        try:
            with crash_records.during(self._attempt, "first running"):
                outputs = self._run(*args)
        except Exception as error:
            pass_on(error)
            if dispatch.ends_recomputation(error) or not (undo is None or undo.restore()):
                raise
            return self._failed(error, args)
        self._proven = True
        wrong = tolerance.disagreement(_flat(outputs), expected) if expected is not None else ""
        if wrong:
            self._run = self._eager
            self._journal.add_fallback("verify", "graph", message=wrong)
            if undo is None or undo.restore():
                return self._eager(*args)
        return outputs

    def _expected(self, args: Sequence[Any], undo: Undo | None) -> Sequence[Any] | None:
        if undo is not None and not undo.possible:
            return None
        try:
            return _reference(self._eager, args)
        finally:
            if undo is not None:
                undo.restore()

    def _failed(self, error: Exception, args: Sequence[Any]) -> Any:
        # Eager first: where it raises too, the fault is the user's, and theirs to see.
        outputs = self._eager(*args)
        self._failures += 1
        if self._failures >= RUN_FAILURES:
            self._run = self._eager
            self._proven = True
        self._journal.add_fallback("run", "graph", error=error)
        return outputs


def _flat(outputs: Any) -> Sequence[Any]:
    return outputs if isinstance(outputs, (tuple, list)) else (outputs,)


def _reference(eager: Callable[..., Any], args: Sequence[Any]) -> Sequence[Any] | None:
    """Eager's outputs on copies of the inputs; ``None`` where they cannot serve as the reference.

    They are none where random numbers were drawn (a compiler may draw them otherwise), where eager
    raises, or where inputs share memory, which copies would not.
    """
    import torch

    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if not all(map(dispatch.is_plain_tensor, tensors)):
        return None
    storages = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}
    if len(storages) != sum(bool(tensor.numel()) for tensor in tensors):
        return None
    devices = sorted({t.device.index or 0 for t in tensors if t.is_cuda})
    copies = [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in args]
    with dispatch.outside_modes(), torch.random.fork_rng(devices), torch.no_grad():
        states = [torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)]
        try:
            outputs = _flat(eager(*copies))
        except Exception as error:  # noqa: BLE001 - no reference then
            pass_on(error)
            return None
        after = [torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)]
        drew = any(not torch.equal(a, b) for a, b in zip(states, after, strict=True))
    return None if drew else outputs
