"""AOTAutograd: a captured graph becomes functional graphs of ATen operators."""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch._functorch import config
from torch._guards import TracingContext, tracing
from torch.fx import GraphModule, Node

from dynamo_ext.backends.torch_private.backend_registry import torch_backend
from dynamo_ext.backends.torch_private.decompositions import Decompositions, refuse_wrong_cuts
from dynamo_ext.records.graph import PartitionRole


@dataclass(frozen=True)
class Facts:
    """What AOTAutograd knows of a graph that it has made.

    ``static_inputs`` are those of ``static_inputs()``. ``changed_inputs`` counts inputs that the
    graph changes: their new values are its first results, which AOT copies back behind it.
    ``changes_results`` says that AOT makes views of results, or copies some into inputs; and
    ``plain`` that it does nothing at a call but to switch gradients off.
    """

    static_inputs: Sequence[int] = ()
    changed_inputs: int = 0
    changes_results: bool = False
    plain: bool = True


Stage = Callable[[GraphModule, PartitionRole, Facts], Callable[[Sequence[Any]], Any]]
"""Compiles a graph of AOT's to what takes a sequence of its inputs."""


def restarts() -> tuple[type[BaseException], ...]:
    """Exceptions by which Dynamo asks to trace a frame again: never ours to catch."""
    from torch._dynamo.exc import RestartAnalysis

    return (RestartAnalysis,)


def aot_compile(
    graph: GraphModule, inputs: Sequence[Any], stage: Stage, decompositions: Decompositions
) -> Callable[..., Any]:
    """Run AOTAutograd: ``stage`` gets functional ATen graphs and compiles them.

    The graph is one that ``refuse_wrong_cuts`` does not refuse.
    """
    from torch._dynamo.backends.common import aot_autograd

    direct: list[Callable[[Sequence[Any]], Any]] = []

    def compiled(graph: GraphModule, role: PartitionRole) -> Callable[..., Any]:
        facts = _facts(graph, len(inputs))
        run = stage(graph, role, facts)
        if role == "inference" and facts.plain:
            direct.append(run)
        # Not a function around it, which would be a step of every call.
        boxed: Any = functools.partial(run)
        boxed._boxed_call = True
        return boxed  # type: ignore[no-any-return]

    compiler = aot_autograd(
        fw_compiler=lambda graph, _: compiled(graph, "forward"),
        bw_compiler=lambda graph, _: compiled(
            _without_zeros(without_unused_draws(graph)), "backward"
        ),
        inference_compiler=lambda graph, _: compiled(graph, "inference"),
        decompositions=decompositions,
    )
    with _numbers_read():
        made = finished(compiler(graph, inputs))
    return without_gradients(direct[0]) if direct else made


def without_gradients(run: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    """A compiled graph as Dynamo calls it, run as AOTAutograd runs one of inference."""

    def call(*args: Any) -> Any:
        if not torch.is_grad_enabled():
            return run(args)
        with torch.no_grad():
            return run(args)

    return call


def without_unused_draws(backward: GraphModule) -> GraphModule:
    """Draw no random numbers a second time that the backward pass does not use.

    The partitioner copies draws of the forward pass into it, and leaves them (2.13.0).
    """
    if backward.graph.eliminate_dead_code(lambda node: node.is_impure(impure_random=False)):
        backward.recompile()
    return backward


def _without_zeros(backward: GraphModule) -> GraphModule:
    """Give ``None``, as eager does, as the gradient of a leaf that the forward pass only changes.

    AOTAutograd has the new value of an input as a result, whose gradient the input gets. It copies
    that value into a leaf out of autograd's sight, so the gradient is of nothing: zeros.
    """
    from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput, TangentAOTInput

    facts = _being_compiled()
    output = backward.graph.output_node()
    gradients: Any = output.args[0]
    if facts is None or len(facts.input_info) != len(gradients):
        return backward

    def is_zeros(gradient: Any, info: Any) -> bool:
        source = gradient.meta.get("desc") if hasattr(gradient, "meta") else None
        new_value = isinstance(source, TangentAOTInput) and isinstance(
            source.output, InputMutationAOTOutput
        )
        return new_value and info.is_leaf and info.mutates_data

    pairs = zip(gradients, facts.input_info, strict=True)
    kept = tuple(None if is_zeros(gradient, info) else gradient for gradient, info in pairs)
    if kept != tuple(gradients):
        output.args = (kept,)
        backward.recompile()
    return backward


def _numbers_read() -> contextlib.AbstractContextManager[Any]:
    """Let a graph read a number out of a tensor (``pad`` by a tensor): it is then of any value.

    Dynamo ends its graphs at ``item``, and does not see what operators read by themselves.
    """
    context = TracingContext.try_get()
    mode = context.fake_mode if context is not None else None
    if mode is None:
        return contextlib.nullcontext()
    return mock.patch.object(mode, "allow_scalar_outputs", new=True)


def one_of_several() -> contextlib.AbstractContextManager[Any]:
    """Compile one of the parts of a graph: AOTAutograd keeps what it knows of each apart.

    It keeps the facts of the graph that it compiled last, which backward graphs read that are
    compiled later, in the order in which they first run.
    """
    context = TracingContext.try_get()
    return tracing(context and copy.copy(context))


def donate_nothing() -> None:
    """Let a second backward pass read what the graph that AOT is compiling saves for the first.

    Inductor writes to what is donated, and torch refuses ``retain_graph=True`` where anything is.
    """
    facts = _being_compiled()
    if facts is None:
        return
    if facts.bw_donated_idxs is None:
        facts.bw_donated_idxs = []
    # In place: where tensors are of a subclass, AOT has other facts with the same list.
    facts.bw_donated_idxs.clear()


@contextlib.contextmanager
def donating_nothing() -> Iterator[None]:
    """The same for a function of others in which AOT may compile backward passes at once."""
    with config.patch(donated_buffer=False):
        yield
    donate_nothing()


def finished(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """What AOTAutograd compiled, whose backward pass may run twice, without a wrapper.

    The wrapper keeps Dynamo from tracing it. Dynamo puts the same one around whatever a backend
    returns, and each takes microseconds.
    """
    from torch._dynamo.eval_frame import innermost_fn

    donate_nothing()
    return innermost_fn(compiled)


def static_inputs() -> list[int]:
    """Positions of parameters and buffers in the *inference* graph that AOT is compiling.

    Buffers which the graph itself changes (batch-norm statistics in training mode, caches) are
    left out: frozen, they would be stale at each call. Meaningless for a backward graph.
    """
    facts = _being_compiled()
    if facts is None:
        return []
    changed = {
        i for i, info in enumerate(facts.input_info) if info.mutates_data or info.mutates_metadata
    }
    return [i for i in facts.static_input_indices if i not in changed]


def marks(graph: GraphModule) -> str:
    """What Dynamo says of a captured graph and its inputs: it decides which are static."""
    facts = "dynamo_compile_id" in graph.meta, hasattr(graph, "_param_name_to_source")
    placeholders = graph.graph.find_nodes(op="placeholder")
    given = (node.meta.get("tensor_dict", {}) for node in placeholders)
    return repr([facts, *(bool(each.get("_dynamo_static_input_type")) for each in given)])


def settings() -> str:
    """What AOTAutograd's graphs depend on beside the graph that it gets.

    Raises ``RuntimeError`` where autocast is on.
    """
    if torch._C._is_any_autocast_enabled():
        raise RuntimeError
    backends: Any = torch.backends
    names = ("enabled", "deterministic", "benchmark", "allow_tf32")
    attention = ("flash", "mem_efficient", "math", "cudnn")
    facts = [
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.cuda.is_initialized() and torch.cuda.current_device(),  # type: ignore[no-untyped-call]
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        backends.mkldnn.enabled,
        [getattr(backends.cudnn, name) for name in names],
        [getattr(backends.cuda, f"{name}_sdp_enabled")() for name in attention],
        (backends.opt_einsum.enabled, backends.opt_einsum.strategy),
        backends.opt_einsum.is_available(),
        backends.mha.get_fastpath_enabled(),
        config.get_hash(),
    ]
    return repr(facts)


def _facts(graph: GraphModule, inputs: int) -> Facts:
    from torch._functorch._aot_autograd.schemas import OutputType

    facts = _being_compiled()
    if facts is None:
        return Facts(plain=False)
    fresh = (OutputType.non_alias, OutputType.unsafe_view_alias)
    changed = len(facts.mutated_inp_runtime_indices)
    changes_results = bool(changed) or any(o.output_type not in fresh for o in facts.output_info)
    modes = facts.grad_enabled_mutation is not None or torch._C._is_any_autocast_enabled()
    symbols = any(getattr(each, "dynamic_dims", None) for each in facts.output_info)
    # AOT has buffers and parameters of the captured graph as inputs, too.
    more = len(graph.graph.find_nodes(op="placeholder")) - inputs
    plain = not (changes_results or modes or symbols or facts.tokens or more)
    return Facts(static_inputs(), changed, changes_results, plain)


def _being_compiled() -> Any:
    """What AOT knows of the inputs and results of the graph that it is compiling, or ``None``."""
    context = TracingContext.try_get()
    return context.fw_metadata if context is not None else None


def compile_by_aot(
    name: str, graph: GraphModule, inputs: Sequence[Any], **options: Any
) -> Callable[..., Any]:
    """What torch's backend of a name, which begins with AOTAutograd, makes of a graph.

    Raises ``StayEager`` where that would give another function.
    """
    refuse_wrong_cuts(graph)
    compiler: Any = torch_backend(name)
    return finished(compiler(graph, inputs, **options))


def give_source(placeholder: Node) -> None:
    """Mark an input that Dynamo has not made: AOTAutograd wants to know where each comes from."""
    from torch._dynamo.source import LocalSource

    placeholder._dynamo_source = LocalSource(placeholder.name)
