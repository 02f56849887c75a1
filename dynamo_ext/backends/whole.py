"""Backends that take a captured graph whole: torch's own, and any callable of the user's.

Such a graph is not functional: it may change its inputs and draw random numbers. So the check
of its first call runs eager on copies, and only counts where no random number was drawn; and a
failed call is run again eagerly only if it had changed nothing yet.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import torch_private, verify
from dynamo_ext.backends.base import StayEager

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import Backend
    from dynamo_ext.backends.journal import Journal

RUN_FAILURES = 3
"""Failed calls after which a graph stays in eager."""


def compile_graph(
    graph: GraphModule,
    example_inputs: Sequence[Any],
    backend: Backend,
    options: Mapping[str, Any],
    journal: Journal,
) -> Callable[..., Any]:
    """Hand a graph to a backend as it is; an exception there means eager.

    Parameters and result are those of ``pipeline.compile_graph``. A backend that returns the
    graph's own ``forward`` gets no wrapper, so ``eager`` costs nothing; nor does one that
    ``checks_itself``, because other backends made what it returns.
    """
    try:
        run = backend.lower(graph, example_inputs, options)
        if not callable(run):
            message = f"The backend returned {type(run).__name__}, which cannot be called."
            journal.add_fallback("lower", "graph", message=message)
            return graph.forward
    except torch_private.restarts():
        raise
    except StayEager as decision:
        if decision.reason:
            journal.add_fallback(
                "unsupported", "graph", message=decision.reason, remedy=decision.remedy
            )
        return graph.forward
    except Exception as error:  # noqa: BLE001 - anything at all means eager
        journal.add_fallback("lower", "graph", error=error)
        return graph.forward
    if run == graph.forward or run is graph:
        return graph.forward
    if getattr(backend, "checks_itself", False):
        return run
    return _Whole(graph, run, journal, check=bool(options.get("verify", False))).call


class _Whole:
    """A compiled whole graph at run time."""

    def __init__(
        self, graph: GraphModule, run: Callable[..., Any], journal: Journal, *, check: bool
    ) -> None:
        self._eager = graph.forward
        self._run = run
        self._journal = journal
        self._check = check
        self._failures = 0
        self._mutates = _may_mutate(graph)
        # An optimizer's weights are no inputs of its graph: they hang on it.
        self._held = held_tensors(graph) if self._mutates else []

    def call(self, *args: Any) -> Any:
        expected = _reference(self._eager, args, self._held) if self._check else None
        before = self._versions(args) if self._mutates else None
        try:
            outputs = self._run(*args)
        except Exception as error:
            if torch_private.ends_recomputation(error):
                raise
            if before is not None and self._versions(args) != before:
                # Half of its changes are made: running it again would make them twice.
                raise
            return self._failed(error, args)
        if self._check:
            self._check = False
            wrong = verify.disagreement(_flat(outputs), expected) if expected is not None else ""
            if wrong:
                self._run = self._eager
                self._journal.add_fallback("verify", "graph", message=wrong)
                if before is None or self._versions(args) == before:
                    return self._eager(*args)
        return outputs

    def _versions(self, args: Sequence[Any]) -> list[int]:
        return _versions([*args, *self._held])

    def _failed(self, error: Exception, args: Sequence[Any]) -> Any:
        # Eager first: where it raises too, the fault is the user's, and theirs to see.
        outputs = self._eager(*args)
        self._failures += 1
        if self._failures >= RUN_FAILURES:
            self._run = self._eager
            self._check = False
        self._journal.add_fallback("run", "graph", error=error)
        return outputs


def held_tensors(graph: GraphModule) -> list[torch.Tensor]:
    """The tensors that a captured graph reads without being given them: its attributes."""
    import torch

    found: dict[int, torch.Tensor] = {}
    for module in graph.modules():
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        values = [*own, *vars(module).values()]
        found.update((id(v), v) for v in values if isinstance(v, torch.Tensor))
    return list(found.values())


def _flat(outputs: Any) -> Sequence[Any]:
    return outputs if isinstance(outputs, (tuple, list)) else (outputs,)


def _versions(args: Sequence[Any]) -> list[int]:
    import torch

    return [a._version for a in args if isinstance(a, torch.Tensor) and not a.is_inference()]  # noqa: SLF001


_STATISTICS = {"batch_norm": False, "instance_norm": True}
"""Norms that update the statistics they are given, and whether they do unless told."""

_UPDATE = 5, ("training", "use_input_stats")
"""The argument that tells them, in ``torch`` and in ``torch.nn.functional`` alike."""

_RENORM = 3, ("max_norm",)
"""The argument with which an embedding changes its weight."""


def _may_mutate(graph: GraphModule) -> bool:
    """Whether a graph as captured may change an input: by name, so at times needlessly true.

    Where it is, the versions of all inputs are read before every call.
    """
    return any(map(_may_mutate_at, graph.graph.nodes))


def _may_mutate_at(node: Node) -> bool:
    name = str(getattr(node.target, "__name__", node.target))
    if node.op == "call_method":
        return name.endswith("_") and not name.endswith("__")
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    mutable = schema is not None and bool(schema.is_mutable)
    return mutable or _is_inplace(node, name) or _updates(node, name)


def _is_inplace(node: Node, name: str) -> bool:
    if "out" in node.kwargs or node.kwargs.get("inplace"):
        return True
    return name.endswith("_") or "setitem" in name or _is_inplace_operator(node.target)


def _updates(node: Node, name: str) -> bool:
    """Whether it changes statistics or a table that it is given."""
    if name in _STATISTICS:
        return bool(_argument(node, *_UPDATE, otherwise=_STATISTICS[name]))
    if name in {"embedding", "embedding_bag"}:
        return _argument(node, *_RENORM, otherwise=None) is not None
    return any(each in name for each in _STATISTICS)


def _argument(node: Node, position: int, names: Sequence[str], *, otherwise: Any) -> Any:
    if len(node.args) > position:
        return node.args[position]
    return next((node.kwargs[name] for name in names if name in node.kwargs), otherwise)


def _is_inplace_operator(target: Any) -> bool:
    """Whether a function is that of ``+=`` or one like it."""
    name = getattr(target, "__name__", "")
    return (
        getattr(operator, f"__{name}__", None) is target
        and name.startswith("i")
        and (getattr(operator, f"__{name[1:]}__", None) is not None)
    )


def _reference(
    eager: Callable[..., Any], args: Sequence[Any], held: Sequence[torch.Tensor]
) -> Sequence[Any] | None:
    """Eager's outputs on copies of the inputs; ``None`` where they are no yardstick.

    What the graph holds itself is put back where eager changed it. Outputs are no yardstick where
    random numbers were drawn (a compiler may draw them otherwise), where eager raises, or where
    inputs share memory, which copies would not.
    """
    import torch

    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if not all(map(torch_private.is_plain_tensor, tensors)):
        return None
    storages = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}
    if len(storages) != sum(bool(tensor.numel()) for tensor in tensors):
        return None
    devices = sorted({t.device.index or 0 for t in tensors if t.is_cuda})
    kept = [(tensor, tensor.detach().clone()) for tensor in held]
    before = _versions(held)
    copies = [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in args]
    with torch_private.outside_modes(), torch.random.fork_rng(devices), torch.no_grad():
        states = [torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)]
        try:
            outputs = _flat(eager(*copies))
        except Exception:  # noqa: BLE001 - no yardstick then
            return None
        finally:
            if _versions(held) != before:
                for tensor, value in kept:
                    tensor.copy_(value)
        after = [torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)]
        drew = any(not torch.equal(a, b) for a, b in zip(states, after, strict=True))
    return None if drew else outputs
