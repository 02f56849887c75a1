"""Which parts of a normalised graph an engine takes, and why the rest stays in eager.

Where an engine takes all but ``bucketize``, this graph::

    a = mm(x, w);  b = relu(a);  i = bucketize(b, edges);  c = embedding(table, i);  d = tanh(c)

becomes ``b = part_0(x, w); i = bucketize(b, edges); d = part_1(table, i)``. With fewer operations
than ``min_partition`` asks for, ``part_1`` is eager's, too.
"""

import itertools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import create_op_support
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from dynamo_ext.backends import effects
from dynamo_ext.backends.base import Support
from dynamo_ext.backends.fx_graph import duplicate
from dynamo_ext.backends.pipeline.returned_views import is_returned_view
from dynamo_ext.formatting import count
from dynamo_ext.torch_private import dispatch, fx_nodes


def computes(node: Node) -> bool:
    """Whether a node is an operation: no indexing, no arithmetic on sizes, no view returned."""
    return (
        node.op.startswith("call_")
        and node.target is not operator.getitem
        and not isinstance(node.meta.get("val"), dispatch.NUMBERS)
        and not is_returned_view(node)
    )


def operation_name(node: Node) -> str:
    """An operator as a person writes it: ``aten.addmm.default``."""
    if fx_nodes.is_overload(node.target):
        return str(node.target)
    return str(getattr(node.target, "__name__", node.target))


def unsupported_reason(node: Node) -> str:
    """Why no engine at all may take a node; empty where one may."""
    if not fx_nodes.is_overload(node.target):
        return "It is not an ATen operator."
    target: Any = node.target
    may = effects.of_node(node)
    values = [node.meta.get("val"), *(arg.meta.get("val") for arg in node.all_input_nodes)]
    by_data = torch.Tag.data_dependent_output in target.tags or dispatch.has_unbacked(values)
    # As `out=torch.empty(0)` is; torch leaves a tensor unusable whose storage refused to grow.
    returned = any(user.op == "output" for user in node.users)
    sizes = getattr(node.meta.get("val"), "shape", ()) if returned else ()
    empty = any(isinstance(size, int) and not size for size in sizes)
    uninitialised = str(target).startswith(("aten.empty", "aten.new_empty"))
    reasons = {
        "It changes its input in place.": may.changes,
        "It draws random numbers, which stay with torch's generator.": may.draws,
        "The shape of its result depends on the data.": by_data,
        "Its result is empty: it may be resized, which an engine's memory cannot be.": empty,
        # What nothing writes to would differ from eager's.
        "Its result is uninitialised memory.": uninitialised,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def decide_support(graph: GraphModule, supports: Callable[[Node], Support]) -> dict[Node, Support]:
    """An answer for each call node of the graph; indexing goes with what it indexes."""
    answers: dict[Node, Support] = {}
    for node in graph.graph.nodes:
        if not node.op.startswith("call_"):
            continue
        if is_returned_view(node):
            answers[node] = Support(supported=False, reason="It is a view that the graph returns.")
        elif node.target is operator.getitem:
            of_input = Support(supported=False, reason="It indexes an input.")
            answers[node] = answers.get(node.args[0], of_input)
        elif isinstance(node.meta.get("val"), dispatch.NUMBERS):
            answers[node] = Support(supported=False, reason="It computes a size.")
        else:
            reason = unsupported_reason(node)
            answers[node] = Support(supported=False, reason=reason) if reason else supports(node)
    return answers


def too_few(operations: int, smallest: int, where: str) -> str:
    """Why so many operations are not an engine's."""
    return f"Only {count(operations, 'operation')} {where}: min_partition is {smallest}."


def split(
    graph: GraphModule, answers: Mapping[Node, Support], smallest: int
) -> tuple[dict[str, list[Node]], dict[Node, Support]]:
    """Cut a normalised graph, in place, into maximal convex engine parts and eager operations.

    Engine parts are ``call_module`` nodes, by whose names they are given. Both have the operations
    as they were before the graph was cut. Of eager's, the engine would take what is supported, were
    there more of it in a row: parts with fewer operations than ``smallest`` stay in eager, unless
    one part is the whole graph.
    """
    eager = {node: each for node, each in answers.items() if not each and computes(node)}
    groups = _propose(graph, answers)
    kept = []
    for group in groups:
        operations = [node for node in group if computes(node)]
        lonely = len(groups) == 1 and not eager
        if operations and (lonely or len(operations) >= smallest):
            kept.append(group)
            continue
        reason = too_few(len(operations), smallest, "in a row")
        eager |= dict.fromkeys(operations, Support(supported=True, reason=reason))
    parts = {
        f"part_{number}": [node for node in graph.graph.nodes if node in group and computes(node)]
        for number, group in enumerate(kept)
    }
    if kept:
        _fuse(graph, kept)
    return parts, eager


def _propose(graph: GraphModule, answers: Mapping[Node, Support]) -> list[dict[Node, int | None]]:
    if not any(answers.values()):
        return []
    if _nothing_between(graph, answers):
        # The partitioner's reachability sets would be for nothing.
        groups = [dict.fromkeys(node for node, answer in answers.items() if answer)]
    else:
        groups = _partition(graph, answers, {})
    if _keeps_random_order(graph, groups):
        return groups
    # Stretches between random or mutating operations, which no part may then reach across.
    begins = (any(effects.of_node(node)) for node in graph.graph.nodes)
    segments = dict(zip(graph.graph.nodes, itertools.accumulate(begins), strict=True))
    return _partition(graph, answers, segments)


def _nothing_between(graph: GraphModule, answers: Mapping[Node, Support]) -> bool:
    """Whether no operation of the engine's reads what eager computes from another one's result."""
    behind: set[Node] = set()
    for node in graph.graph.nodes:
        if answers.get(node):
            if not behind.isdisjoint(node.all_input_nodes):
                return False
        elif any(answers.get(each) or each in behind for each in node.all_input_nodes):
            behind.add(node)
    return True


def _partition(
    graph: GraphModule, answers: Mapping[Node, Support], segments: Mapping[Node, int]
) -> list[dict[Node, int | None]]:
    groups: list[dict[Node, int | None]] = []
    for wanted in (*sorted(set(segments.values())),) or (None,):
        inside = {n for n, answer in answers.items() if answer and segments.get(n) == wanted}
        support = create_op_support(lambda _, node, inside=inside: node in inside)  # type: ignore[misc]
        partitioner = CapabilityBasedPartitioner(graph, support, allows_single_node_partition=True)
        groups += [partition.nodes for partition in partitioner.propose_partitions()]
    return groups


def _keeps_random_order(graph: GraphModule, groups: list[dict[Node, int | None]]) -> bool:
    """Whether cutting leaves random and mutating operations in the order that they were in."""
    watched = [node for node in graph.graph.nodes if any(effects.of_node(node))]
    if len(watched) < 2:  # noqa: PLR2004 - one has no order
        return True
    trial = duplicate(graph)
    twins = dict(zip(graph.graph.nodes, trial.graph.nodes, strict=True))
    names = [twins[node].name for node in watched]
    _fuse(trial, [{twins[node]: None for node in group} for group in groups])
    # By name: fusing creates nodes again.
    return [node.name for node in trial.graph.nodes if node.name in set(names)] == names


def _fuse(graph: GraphModule, groups: list[dict[Node, int | None]]) -> None:
    fuse_by_partitions(graph, groups, prefix="part_", always_return_tuple=True)
