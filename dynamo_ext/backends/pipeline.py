"""The road of a graph: normalise ► fold ► freeze ► partition ► lower ► verify ► run, or eager.

Whatever fails on it, the user's result is eager's, and the journal says which stage gave way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from dynamo_ext.backends import even_bags, fused_attention, torch_private, updates
from dynamo_ext.backends.base import StayEager, Support
from dynamo_ext.backends.constants import attribute, fold
from dynamo_ext.backends.freeze import watchable
from dynamo_ext.backends.partition import (
    Split,
    captured_names,
    computes,
    judge,
    operation_name,
    split,
)
from dynamo_ext.backends.returned_views import set_apart
from dynamo_ext.backends.runner import Runner, Setting
from dynamo_ext.records import Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import Backend
    from dynamo_ext.backends.journal import Journal

SMALLEST_PART = 3
"""Operations that a part of a cut-up graph must have, unless a backend's option says else."""

Role = Literal["inference", "forward", "backward"]


def compile_graph(
    graph: GraphModule,
    example_inputs: Sequence[Any],
    backend: Backend,
    options: Mapping[str, Any],
    journal: Journal,
) -> Callable[..., Any]:
    """Compile a captured graph with a partitioning backend.

    Parameters
    ----------
    graph
        As Dynamo hands it over.
    example_inputs
        Real tensors and symbolic sizes, one for each placeholder.
    backend
        Answers ``supports`` and ``lower`` for normalised graphs.
    options
        Resolved options; ``freeze``, ``verify`` and ``min_partition`` are read here.
    journal
        Where partitions and fallbacks are told, now and in later calls.

    Returns
    -------
    Callable
        Takes the graph's inputs. At worst it is the graph itself.
    """
    try:
        return _Road(graph, example_inputs, Setting(backend, options, journal)).compile()
    except torch_private.restarts():
        raise
    except StayEager as decision:
        if decision.reason:
            journal.add_fallback(
                "unsupported", "graph", message=decision.reason, remedy=decision.remedy
            )
    except Exception as error:  # noqa: BLE001 - anything at all means eager
        message = f"The graph could not be normalised: {_first_line(error)}"
        journal.add_fallback("lower", "graph", error=error, message=message)
    return graph.forward


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class _Road:
    """One captured graph on its way through the stages."""

    def __init__(self, graph: GraphModule, example_inputs: Sequence[Any], setting: Setting) -> None:
        self._graph = graph
        self._inputs = list(example_inputs)
        self._setting = setting

    def compile(self) -> Callable[..., Any]:
        import torch

        training = torch.is_grad_enabled() and any(
            isinstance(value, torch.Tensor) and value.requires_grad for value in self._inputs
        )
        # `with torch.no_grad():` inside the captured code is part of the graph.
        training = training and _gives_gradients(self._graph)
        table = torch_private.core_decompositions()
        # Autocast reaches into a fused kernel, and not into its decomposition.
        if not torch_private.autocasts(self._graph):
            table |= fused_attention.decompositions()
        if not training:
            table |= torch_private.attention_decomposition()
        refine = getattr(self._setting.backend, "decompositions", None)
        if refine is not None:
            table = refine(table, training=training)
        compiled = torch_private.aot_compile(
            self._graph,
            self._inputs,
            forward=lambda graph, _: self._stage(graph, "forward"),
            backward=lambda graph, _: self._stage(graph, "backward"),
            inference=lambda graph, _: self._stage(graph, "inference"),
            decompositions=table,
        )
        # The real weights are with the runners now; activations need not live as long as they.
        self._inputs.clear()
        return compiled

    def _stage(self, graph: GraphModule, role: Role) -> Callable[..., Any]:
        setting = self._setting
        weights = self._weights(graph) if role == "inference" else {}
        setting.journal.folded += fold(graph)
        if role == "inference" and updates.only_updates(graph, torch_private.changed_inputs()):
            raise StayEager(updates.REASON, updates.REMEDY)
        even_bags.unpack(graph, lambda node: bool(self._supports(node)))
        views = set_apart(graph)
        answers = judge(graph, self._supports)
        total = sum(map(computes, graph.graph.nodes))
        setting.journal.normalised += total
        for node, answer in answers.items():
            if not answer and computes(node):
                setting.journal.add_fallback(
                    "unsupported",
                    "graph",
                    operator=operation_name(node),
                    message=answer.reason,
                )
        if total and all(answers.values()) and _returns_only_results(graph):
            operations = list(filter(computes, graph.graph.nodes))
            record = _known(role, setting.backend.name, operations)
            positions = {i: w for i, w in enumerate(weights.values()) if w is not None}
            runner = Runner(record, graph, setting, weights=positions)
            return self._finish(role, [runner], runner.call)
        nodes = {node.name: node for node in answers}
        smallest = int(setting.options.get("min_partition", SMALLEST_PART))
        parts = split(graph, answers, smallest)
        self._record_eager(parts, nodes, role)
        constants = role == "inference" and bool(setting.options.get("freeze", True))
        runners = _install(parts, setting, role, weights, constants=constants)
        forward = parts.graph.forward
        if views:
            forward = torch_private.without_view_tracking(forward)
        return self._finish(role, runners, lambda args: forward(*args))

    def _finish(
        self, role: Role, runners: list[Runner], call: Callable[[Sequence[Any]], Any]
    ) -> Callable[..., Any]:
        alive = [runner.prepare() for runner in runners]
        if role != "backward" and not any(alive):
            # No engine took anything: the graph as captured is faster than the normalised one.
            raise StayEager

        def boxed(args: list[Any]) -> Any:
            return call(args)

        boxed._boxed_call = True  # type: ignore[attr-defined]  # noqa: SLF001 - AOTAutograd's sign
        return boxed

    def _supports(self, node: Node) -> Support:
        try:
            return self._setting.backend.supports(node)
        except Exception as error:  # noqa: BLE001
            reason = f"Asking failed: {type(error).__name__}: {_first_line(error)}"
            return Support(supported=False, reason=reason)

    def _weights(self, graph: GraphModule) -> dict[str, torch.Tensor | None]:
        """Each placeholder to the real weight behind it, or ``None`` where there is none.

        By name: cutting a graph up makes its nodes anew.
        """
        placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        none: dict[str, torch.Tensor | None] = dict.fromkeys(node.name for node in placeholders)
        if not self._setting.options.get("freeze", True) or len(none) != len(self._inputs):
            return none
        for position in torch_private.static_inputs():
            node, weight = placeholders[position], self._inputs[position]
            if not torch_private.is_plain_tensor(weight) or not watchable(weight):
                continue
            facts = node.meta["val"]
            if (facts.shape, facts.dtype) == (weight.shape, weight.dtype):
                none[node.name] = weight
        return none

    def _record_eager(self, parts: Split, nodes: Mapping[str, Node], role: Role) -> None:
        reasons: dict[str, list[Node]] = {}
        short = {each.reason for each in parts.eager.values() if each.short}
        for name, each in parts.eager.items():
            reasons.setdefault(each.reason, []).append(nodes[name])
        for number, (reason, left) in enumerate(reasons.items()):
            record = _known(f"{role}_eager_{number}", "eager", left)
            record = replace(record, reason=reason, short=reason in short)
            self._setting.journal.add_partition(record)


def _known(name: str, engine: str, operations: Sequence[Node]) -> Partition:
    """The record of a partition before it is lowered."""
    targets = tuple(map(operation_name, operations))
    captured = captured_names(operations)
    return Partition(name, engine, len(targets), targets, captured=captured)


def _gives_gradients(graph: GraphModule) -> bool:
    """Whether anything that a captured graph returns can be differentiated, as Dynamo saw it."""
    import torch

    for node in graph.graph.output_node().all_input_nodes:
        value = node.meta.get("example_value")
        if not isinstance(value, torch.Tensor) or value.requires_grad:
            return True
    return False


def _returns_only_results(graph: GraphModule) -> bool:
    """Whether the outputs are distinct tensors that the graph computes, and nothing else."""
    outputs: Any = graph.graph.output_node().args[0]
    nodes = [value for value in outputs if getattr(value, "op", "") == "call_function"]
    return len(nodes) == len(outputs) == len(set(nodes))


def _install(
    parts: Split,
    setting: Setting,
    role: Role,
    weights: Mapping[str, torch.Tensor | None],
    *,
    constants: bool,
) -> list[Runner]:
    """Put a runner in the place of each part of a cut-up graph."""
    runners = []
    graph = parts.graph
    for node in list(graph.graph.nodes):
        if node.op != "call_module" or node.target not in parts.parts:
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
        known = parts.parts[name]
        record = Partition(
            f"{role}_{name.removeprefix('part_')}",
            setting.backend.name,
            len(known.targets),
            known.targets,
            captured=known.captured,
        )
        part: Any = graph.get_submodule(name)
        runner = Runner(record, part, setting, weights=frozen)
        runners.append(runner)
        node.op, node.target = "call_function", _as_function(runner, name)
    for name in parts.parts:
        graph.delete_submodule(name)
    graph.recompile()
    return runners


def _as_function(runner: Runner, name: str) -> Callable[..., Any]:
    call = runner.call

    def part(*args: Any) -> Any:
        return call(args)

    # FX names a function in the code that it writes by these two.
    part.__name__ = part.__qualname__ = name
    part.__module__ = "dynamo_ext.parts"
    return part
