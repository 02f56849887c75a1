"""AOTAutograd: a captured graph becomes functional graphs of ATen operators."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch._functorch import config
from torch._guards import TracingContext, tracing
from torch.fx import GraphModule, Node

from dynamo_ext.backends.base import Stage
from dynamo_ext.backends.torch_private.backend_registry import torch_backend
from dynamo_ext.backends.torch_private.decompositions import Decompositions, refuse_wrong_cuts


def restarts() -> tuple[type[BaseException], ...]:
    """Exceptions by which Dynamo asks to trace a frame again: never ours to catch."""
    from torch._dynamo.exc import RestartAnalysis

    return (RestartAnalysis,)


def aot_compile(
    graph: GraphModule,
    inputs: Sequence[Any],
    stage: Stage,
    decompositions: Decompositions,
) -> Callable[..., Any]:
    """Run AOTAutograd: ``stage`` gets functional ATen graphs and compiles them.

    Raises ``StayEager`` where that would give another function.
    """
    refuse_wrong_cuts(graph)
    from torch._dynamo.backends.common import aot_autograd

    compiler = aot_autograd(
        fw_compiler=lambda graph, _: stage(graph, "forward"),
        bw_compiler=lambda graph, _: stage(_without_zeros(without_unused_draws(graph)), "backward"),
        inference_compiler=lambda graph, _: stage(graph, "inference"),
        decompositions=decompositions,
    )
    with _numbers_read():
        return finished(compiler(graph, inputs))


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


@contextlib.contextmanager
def _numbers_read() -> Iterator[None]:
    """Let a graph read a number out of a tensor (``pad`` by a tensor): it is then of any value.

    Dynamo ends its graphs at ``item``, and does not see what operators read by themselves.
    """
    context = TracingContext.try_get()
    mode = context.fake_mode if context is not None else None
    if mode is None:
        yield
        return
    before, mode.allow_scalar_outputs = mode.allow_scalar_outputs, True
    try:
        yield
    finally:
        mode.allow_scalar_outputs = before


@contextlib.contextmanager
def one_of_several() -> Iterator[None]:
    """Compile one of the parts of a graph: AOTAutograd keeps what it knows of each apart.

    It keeps the facts of the graph that it compiled last, which backward graphs read that are
    compiled later, in the order in which they first run.
    """
    context = TracingContext.try_get()
    with tracing(context and copy.copy(context)):
        yield


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


def changed_inputs() -> int:
    """How many inputs the graph that AOT is compiling changes.

    Their new values are its first results, which AOT copies back behind it.
    """
    facts = _being_compiled()
    return len(facts.mutated_inp_runtime_indices) if facts is not None else 0


def changes_results() -> bool:
    """Whether AOT makes views of the graph's results, or copies some of them into inputs."""
    from torch._functorch._aot_autograd.schemas import OutputType

    facts = _being_compiled()
    if facts is None:
        return False
    fresh = (OutputType.non_alias, OutputType.unsafe_view_alias)
    views = any(each.output_type not in fresh for each in facts.output_info)
    return views or bool(facts.mutated_inp_runtime_indices)


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
