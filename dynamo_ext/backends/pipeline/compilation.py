"""The stages of a graph: normalise ► fold ► freeze ► partition ► lower ► verify ► run, or eager.

Whatever fails on it, the user's result is eager's, and the journal says which stage failed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.base import MIN_PARTITION, StayEager, Support, fact
from dynamo_ext.backends.compile_context import CompileContext
from dynamo_ext.backends.fx_graph import attribute, may_differentiate, named
from dynamo_ext.backends.passes import fused_transformer
from dynamo_ext.backends.pipeline import inplace_only, whole_graph
from dynamo_ext.backends.pipeline.calls import overlapping_inputs, shape_limit
from dynamo_ext.backends.pipeline.calls.graph_call import GraphCall
from dynamo_ext.backends.pipeline.calls.graph_check import GraphCheck
from dynamo_ext.backends.pipeline.calls.overlapping_inputs import Overlaps
from dynamo_ext.backends.pipeline.calls.runner import Runner
from dynamo_ext.backends.pipeline.constant_folding import fold
from dynamo_ext.backends.pipeline.division import graph_parts
from dynamo_ext.backends.pipeline.freeze import watchable
from dynamo_ext.backends.pipeline.input_views import apart, value_of
from dynamo_ext.backends.pipeline.memory_format import relaxed
from dynamo_ext.backends.pipeline.normalisation import normalised
from dynamo_ext.backends.pipeline.partition import (
    computes,
    decide_support,
    operation_name,
    split,
    too_few,
)
from dynamo_ext.backends.pipeline.returned_views import separate_returned_views
from dynamo_ext.backends.torch_private import aot, decompositions
from dynamo_ext.errors import one_line
from dynamo_ext.interruptions import failures
from dynamo_ext.records.common import FULL
from dynamo_ext.records.graph import Partition, PartitionRole
from dynamo_ext.torch_private import dispatch, fx_nodes
from dynamo_ext.torch_private.entered_modes import forward_of, is_forward

_Made = tuple[Callable[..., Any], bool]
"""What is called, and whether something between the engines and the caller is to be checked."""


def compile_graph(
    graph: GraphModule, example_inputs: Sequence[Any], context: CompileContext
) -> Callable[..., Any]:
    """Compile a captured graph with a backend; at worst, the result is the graph's ``forward``.

    ``example_inputs`` are real tensors and symbolic sizes, one for each placeholder. Of the options
    ``divide``, ``freeze``, ``verify`` and ``min_partition`` are read here. The context's journal
    receives partitions and fallbacks, now and in later calls. What a backend that is
    ``self_verifying`` returns comes back as it is: other backends made it.
    """
    backend = context.backend
    tries = bool(fact(backend, "self_verifying"))
    overlaps = Overlaps(graph, example_inputs)
    checks = context.options.get("verify", not backend.whole_graph)

    def compiled() -> _Made:
        if not (tries or backend.name == "eager") and overlaps.found(example_inputs):
            raise StayEager(overlapping_inputs.MESSAGE, overlapping_inputs.REMEDY)
        by_parts = not backend.whole_graph or fact(backend, "through_aot")
        if by_parts and context.options.get("divide", True):
            parts = graph_parts.divided(graph, example_inputs)
            if parts:
                return _in_parts(graph, parts, context)
        return _in_one(graph, example_inputs, context)

    made = _or_eager(compiled, context)
    if made is None or is_forward(made[0], graph):
        return forward_of(graph)
    run, needs_check = made
    if tries:
        return run
    refusals = overlaps.refusals(context.journal)
    if not (backend.whole_graph or fact(backend, "dynamic_shapes")):
        refusals += shape_limit.refusals(example_inputs, context.journal)
    if not (needs_check or refusals):
        # Runners of partitions undo and compare all that there is.
        return run
    check = GraphCheck(graph, context) if needs_check and checks else None
    call = GraphCall(graph, run, context.journal, check=check, attempt=context.attempt)
    call.refusals = refusals
    return call


def _or_eager(compiled: Callable[[], _Made], context: CompileContext) -> _Made | None:
    """What ``compiled`` gives, or ``None`` and a record of why eager is to run the graph."""
    try:
        return compiled()
    except aot.restarts():
        raise
    except StayEager as decision:
        if said := decision.reason:
            remedy, harmless = decision.remedy, decision.harmless
            context.journal.add_fallback(
                "unsupported", "graph", message=said, remedy=remedy, harmless=harmless
            )
    except failures() as error:  # any error of a compiler's means eager
        whole = context.backend.whole_graph
        message = "" if whole else f"The graph could not be normalised: {one_line(error)}"
        context.journal.add_fallback("lower", "graph", error=error, message=message)
    return None


def _by_autocast(context: CompileContext) -> bool:
    """Whether partitions are to be cut from the graph under autocast."""
    return context.precision != FULL and bool(fact(context.backend, "lowered_by_autocast"))


def _settled(context: CompileContext, part: int) -> whole_graph.Compile:
    """What compiles a graph with its casts in it; its results are checked as those of the graph."""
    settled = {**context.options, "precision": FULL, "verify": False}
    full = replace(context, options=settled)
    return lambda rest, inputs: _GraphCompilation(rest, inputs, full, part).compile()


def _in_one(
    graph: GraphModule, inputs: Sequence[Any], context: CompileContext, part: int = 0
) -> _Made:
    """A graph, or a part of one, compiled without a cut for autograd."""
    whole = context.backend.whole_graph
    if whole or _by_autocast(context):
        in_partitions = None if whole else _settled(context, part)
        return whole_graph.handed_over(graph, inputs, context, in_partitions), True
    compilation = _GraphCompilation(graph, inputs, context, part)
    return compilation.compile(), compilation.needs_check or context.refuses


def _in_parts(
    graph: GraphModule, parts: Sequence[graph_parts.Part], context: CompileContext
) -> _Made:
    """As ``_in_one``, its parts compiled one by one; those of too few operations are eager's."""
    by_engine = not (context.backend.whole_graph or _by_autocast(context))
    smallest = int(context.options.get("min_partition", MIN_PARTITION.default))

    def compiled(number: int, part: graph_parts.Part) -> _Made:
        operations = part.operations()
        # Torch's threads spin for milliseconds, and slow down those of an engine.
        disturbs = by_engine and part.wakes_threads()
        fewest = 1 if disturbs else smallest
        reason = ""
        if part.rewrites:
            reason = "It changes in place what an earlier part of the graph computed, for autograd."
        elif len(operations) < fewest:
            reason = too_few(len(operations), fewest, "between results of the graph")
        if reason:
            record = _known(f"part_{number}", "forward", "eager", operations)
            # It is not normalised: these are the captured operations themselves.
            names = tuple(node.name for node in operations)
            record = replace(record, reason=reason, short=not part.rewrites, captured=names)
            context.journal.partitions[record.name] = record
            raise StayEager
        with aot.one_of_several():
            return _in_one(part.graph, part.examples, context, number)

    made = [_or_eager(partial(compiled, *each), context) for each in enumerate(parts, 1)]
    if not any(made):
        raise StayEager
    pairs = zip(made, parts, strict=True)
    calls = [each[0] if each else forward_of(part.graph) for each, part in pairs]
    return graph_parts.joined(graph, parts, calls), any(each[1] for each in made if each)


class _GraphCompilation:
    """One captured graph on its way through the stages."""

    def __init__(
        self, graph: GraphModule, inputs: Sequence[Any], context: CompileContext, part: int
    ) -> None:
        self._graph = graph
        self._inputs = list(inputs)
        self._context = context
        self._suffix = f"_of_part_{part}" if part else ""
        # Whether something between an engine and the caller makes a result, or changes an input.
        self.needs_check = False

    def compile(self) -> Callable[..., Any]:
        # `with torch.no_grad():` inside the captured code is part of the graph.
        training = may_differentiate(self._inputs) and _gives_gradients(self._graph)
        table = dict(decompositions.core_decompositions())
        # Autocast reaches into a fused kernel, and not into its decomposition.
        if not dispatch.autocasts(self._graph):
            table |= fused_transformer.DECOMPOSITIONS
        if not training:
            table |= decompositions.attention_decomposition()
        table = fact(self._context.backend, "decompositions")(table, training=training)

        def compile_rest(rest: GraphModule) -> Callable[..., Any]:
            self.needs_check = rest is not self._graph
            return normalised(rest, self._inputs, self._stage, table)

        compiled = apart(self._graph, compile_rest)
        # The real weights are with the runners now; activations need not live as long as they.
        self._inputs.clear()
        return compiled

    def _stage(
        self, graph: GraphModule, role: PartitionRole, facts: aot.Facts
    ) -> Callable[[Sequence[Any]], Any]:
        context = self._context
        weights = self._weights(graph, facts) if role == "inference" else {}
        context.journal.folded += fold(graph)
        if role == "inference" and inplace_only.only_updates(graph, facts.changed_inputs):
            raise StayEager(inplace_only.REASON, inplace_only.REMEDY, harmless=True)
        if role != "backward":
            self.needs_check = self.needs_check or facts.changes_results
        views = separate_returned_views(graph)
        answers = decide_support(graph, self._supports)
        operations = list(filter(computes, graph.graph.nodes))
        context.journal.normalised += len(operations)
        for node, answer in answers.items():
            if not answer and computes(node):
                context.journal.add_fallback(
                    "unsupported", "graph", operator=operation_name(node), message=answer.reason
                )
        if operations and all(answers.values()) and _returns_only_results(graph):
            record = _known(role + self._suffix, role, context.backend.name, operations)
            inputs = enumerate(graph.graph.find_nodes(op="placeholder"))
            positions = {i: weights[node.name] for i, node in inputs if node.name in weights}
            runner = Runner(record, graph, context, weights=positions)
            return self._finish(role, [runner], runner.call)
        # Of rounded numbers eager may compute another integer, which no check of an engine sees.
        if role != "backward" and context.precision != FULL:
            self.needs_check = True
        smallest = int(context.options.get("min_partition", MIN_PARTITION.default))
        parts, eager = split(graph, answers, smallest)
        self._record_eager(eager, role)
        runners = self._install(graph, parts, role, weights)
        forward = relaxed(graph).forward
        if views:
            forward = dispatch.without_view_tracking(forward)
        return self._finish(role, runners, lambda args: forward(*args))

    def _finish(
        self, role: PartitionRole, runners: list[Runner], call: Callable[[Sequence[Any]], Any]
    ) -> Callable[[Sequence[Any]], Any]:
        alive = [runner.prepare() for runner in runners]
        if role != "backward" and not any(alive):
            # No engine took anything: the graph as captured is faster than the normalised one.
            raise StayEager
        return call

    def _supports(self, node: Node) -> Support:
        try:
            return self._context.backend.supports(node)
        except failures() as error:
            reason = f"Asking failed: {type(error).__name__}: {one_line(error)}"
            return Support(supported=False, reason=reason)

    def _weights(self, graph: GraphModule, facts: aot.Facts) -> dict[str, torch.Tensor]:
        """The real weights behind placeholders, by name: cutting a graph replaces its nodes."""
        placeholders = list(graph.graph.find_nodes(op="placeholder"))
        weights: dict[str, torch.Tensor] = {}
        if not self._context.options.get("freeze", True) or len(placeholders) != len(self._inputs):
            return weights
        for position in facts.static_inputs:
            node, weight = placeholders[position], self._inputs[position]
            if not dispatch.is_plain_tensor(weight) or not watchable(weight):
                continue
            value = node.meta["val"]
            if (value.shape, value.dtype) == (weight.shape, weight.dtype):
                weights[node.name] = weight
        return weights

    def _install(
        self,
        graph: GraphModule,
        parts: Mapping[str, Sequence[Node]],
        role: PartitionRole,
        weights: Mapping[str, torch.Tensor],
    ) -> list[Runner]:
        """Replace each partition by a runner."""
        constants = role == "inference" and self._context.options.get("freeze", True)
        runners = []
        for node in list(graph.graph.nodes):
            if node.op != "call_module" or node.target not in parts:
                continue
            name = str(node.target)
            frozen = {}
            for position, source in enumerate(node.args):
                kind = getattr(source, "op", "")
                weight = weights.get(source.name) if kind == "placeholder" else None
                if kind == "get_attr" and constants:
                    weight = attribute(graph, str(source.target))
                if weight is not None:
                    frozen[position] = weight
            title = f"{role}_{name.removeprefix('part_')}{self._suffix}"
            record = _known(title, role, self._context.backend.name, parts[name])
            part: Any = graph.get_submodule(name)
            runner = Runner(record, part, self._context, weights=frozen)
            runners.append(runner)
            node.op = "call_function"
            node.target = named(lambda *args, run=runner.call: run(args), name)
        for name in parts:
            graph.delete_submodule(name)
        graph.recompile()
        return runners

    def _record_eager(self, eager: Mapping[Node, Support], role: PartitionRole) -> None:
        left: dict[Support, list[Node]] = {}
        for node, each in eager.items():
            left.setdefault(each, []).append(node)
        for number, (each, nodes) in enumerate(left.items()):
            record = _known(f"{role}_eager_{number}{self._suffix}", role, "eager", nodes)
            record = replace(record, reason=each.reason, short=each.supported)
            self._context.journal.partitions[record.name] = record


def _known(name: str, role: PartitionRole, engine: str, nodes: Sequence[Node]) -> Partition:
    """The record of a partition before it is lowered."""
    targets = tuple(map(operation_name, nodes))
    captured = tuple(dict.fromkeys(filter(None, map(fx_nodes.captured_name, nodes))))
    return Partition(name, engine, len(targets), targets, captured=captured, role=role)


def _gives_gradients(graph: GraphModule) -> bool:
    """Whether anything that a captured graph returns can be differentiated, as Dynamo saw it."""
    results = map(value_of, graph.graph.output_node().all_input_nodes)
    return any(not isinstance(each, torch.Tensor) or each.requires_grad for each in results)


def _returns_only_results(graph: GraphModule) -> bool:
    """Whether the outputs are distinct tensors that the graph computes, and nothing else."""
    outputs: Any = graph.graph.output_node().args[0]
    nodes = [value for value in outputs if getattr(value, "op", "") == "call_function"]
    return len(nodes) == len(outputs) == len(set(nodes))
