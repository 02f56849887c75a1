"""Which engine ran a graph and its operations, and, where they were timed, what takes longest.

Partitions count operations of the normalised graph. In a graph that several engines share, a
captured operation is placed by what became of it, or not at all.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from dynamo_ext.analysis.remembered import remembered
from dynamo_ext.records.graph import Graph, Operation, Partition
from dynamo_ext.records.report import Fallback, Report

EAGER = "eager"
FORWARD = frozenset({"inference", "forward"})
"""Roles of partitions that run the captured operations themselves, and not their derivatives."""

# A fallback in one of these stages leaves its whole subject in eager; the others are partial.
_WHOLE_SUBJECT = frozenset({"unavailable", "lower", "verify"})
_OPERATOR = re.compile(r"(?:aten|prims|prim)\.(\w+)|<built-in (?:function|method) (\w+)")


# What switches torch's modes for the operations after it; a normalised graph has none of them.
_MODES = frozenset({"set_grad_enabled", "enter_autocast", "exit_autocast"})


def sets_mode(operation: Operation) -> bool:
    """Whether an operation computes nothing, but sets one of torch's modes."""
    return operator(operation.target) in _MODES


@lru_cache(4096)  # asked several times of each node of a graph, and graphs have few operators
def operator(target: str) -> str:
    """Reduce a target to its operator's name: ``aten.add.Tensor``, ``operator.add`` to ``add``."""
    found = _OPERATOR.search(target)
    name = (found[1] or found[2]) if found else target.rsplit(".", 1)[-1]
    return name.strip("_")


@dataclass(frozen=True)
class Placement:
    """Where one graph ran.

    ``shares`` maps each engine to the operations it took, the largest share first; ``captured``
    maps captured operations to the engines of what became of them, where there are several.
    """

    shares: Mapping[str, int]
    captured: Mapping[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Operations that some engine or eager ran."""
        return sum(self.shares.values())

    @property
    def in_engine(self) -> int:
        """Operations that an engine other than eager ran."""
        return self.total - self.shares.get(EAGER, 0)

    @property
    def label(self) -> str:
        """Every engine of the graph, as ``onnxrt`` or ``onnxrt + eager``."""
        return " + ".join(self.shares) or EAGER

    def engine_of(self, operation: Operation) -> str:
        """The engine that ran an operation, two as in ``label``, or empty if that is not known."""
        if sets_mode(operation):
            return "" if self.in_engine else EAGER
        return self.label if len(self.shares) == 1 else self.captured.get(operation.name, "")


@remembered
def place_graph(report: Report, graph: Graph) -> Placement:
    """Find where ``graph`` ran, counting what fell back as eager."""
    if _is_eager(report, graph):
        return Placement({EAGER: _size(graph)})
    if graph.partitions:
        return _from_partitions(report, graph)
    return Placement({_backend(graph): _size(graph)})


@dataclass(frozen=True)
class Coverage:
    """Operations of the graphs that were called, and how many of them the backend ran.

    ``captured`` counts those of the graphs as they were captured: it differs from ``total`` where
    these became others, ATen's.
    """

    total: int
    in_engine: int
    graphs: int
    captured: int


@remembered
def coverage(report: Report) -> Coverage:
    """Count what ran where over the graphs that were called in this run."""
    called = [graph for graph in report.graphs if graph.calls]
    placed = [place_graph(report, graph) for graph in called]
    total, in_engine = sum(p.total for p in placed), sum(p.in_engine for p in placed)
    captured = sum(graph.operation_count for graph in called) or total
    return Coverage(total, in_engine, len(called), captured)


def lowered_operations(report: Report) -> int | None:
    """Operations of products that all calls of a run computed in a lower precision, if known."""
    called = [graph for graph in report.graphs if graph.calls]
    found = [graph.lowered if place_graph(report, graph).in_engine else 0 for graph in called]
    if None in found:
        return None
    return sum((each or 0) * graph.calls for each, graph in zip(found, called, strict=True))


def partition_engine(report: Report, graph: Graph, part: Partition) -> str:
    """Name the engine that ran a partition: ``eager`` if its own engine fell back."""
    subject = f"{graph.id}:{part.name}"
    fell = any(f.subject == subject and _took_all(f, graph) for f in report.fallbacks)
    return EAGER if fell or _is_eager(report, graph) else part.engine


@dataclass(frozen=True)
class OperatorTime:
    """What one operator takes in eager over all calls of a run, and its share of all operations.

    Of ``engines``, an empty name says that the record does not tell.
    """

    name: str
    calls: int
    seconds: float
    share: float
    engines: tuple[str, ...]


def operator_times(report: Report) -> tuple[OperatorTime, ...]:
    """Every operator that was timed, the costliest first; empty where none was."""
    found: dict[str, list[tuple[float, int, str]]] = {}
    for graph in report.graphs:
        placement = place_graph(report, graph)
        for op in graph.operations if graph.calls else ():
            if op.seconds and not sets_mode(op):
                row = op.seconds * graph.calls, graph.calls, placement.engine_of(op)
                found.setdefault(operator(op.target), []).append(row)
    whole = sum(row[0] for rows in found.values() for row in rows)
    times = []
    for name, rows in found.items():
        taken, calls, engines = zip(*rows, strict=True)
        share, ran_in = sum(taken) / whole, tuple(sorted(set(engines)))
        times.append(OperatorTime(name, sum(calls), sum(taken), share, ran_in))
    return tuple(sorted(times, key=lambda each: -each.seconds))


def eager_seconds(report: Report) -> dict[str, float]:
    """What operations that no engine took have of this run's time in eager, by reason."""
    found: dict[str, float] = {}
    for graph in report.graphs:
        taken = {op.name: op.seconds * graph.calls for op in graph.operations if not sets_mode(op)}
        for part in graph.partitions:
            if part.reason and part.role in FORWARD:
                seconds = sum(taken.get(name, 0.0) for name in part.captured)
                found[part.reason] = found.get(part.reason, 0.0) + seconds
    return {reason: seconds for reason, seconds in found.items() if seconds}


def _from_partitions(report: Report, graph: Graph) -> Placement:
    shares: dict[str, int] = {}
    engines: dict[str, dict[str, None]] = {}
    for part in graph.partitions:
        engine = partition_engine(report, graph, part)
        shares[engine] = shares.get(engine, 0) + part.operations
        for name in part.captured if part.role in FORWARD else ():
            engines.setdefault(name, {})[engine] = None
    ordered = dict(sorted(shares.items(), key=lambda item: -item[1]))
    captured = {name: " + ".join(sorted(of, key=EAGER.__eq__)) for name, of in engines.items()}
    return Placement(ordered, captured)


def _size(graph: Graph) -> int:
    return sum(p.operations for p in graph.partitions) or graph.normalised or graph.operation_count


def _took_all(fallback: Fallback, graph: Graph) -> bool:
    """Whether its subject ran eagerly in every call; a failed call is one call."""
    always = fallback.stage == "run" and 0 < graph.calls <= fallback.count
    return always or fallback.stage in _WHOLE_SUBJECT


def _backend(graph: Graph) -> str:
    return graph.contest.winner if graph.contest is not None else graph.backend


def _is_eager(report: Report, graph: Graph) -> bool:
    if _backend(graph) == EAGER:
        return True
    taken_whole = not graph.partitions
    return any(
        _took_all(f, graph) or (taken_whole and f.stage == "unsupported" and not f.operator)
        if f.scope == "graph" and f.subject == graph.id
        else f.stage == "unavailable"
        and f.scope != "partition"
        and all(f.subject != other.id for other in report.graphs)
        for f in report.fallbacks
    )


def race_outcome(report: Report) -> Literal["", "unraced", "eager"]:
    """Whether ``auto`` raced none of the graphs that were called, or left all of them to eager."""
    held = [graph.contest for graph in report.graphs if graph.calls]
    races = [each for each in held if each is not None]
    if not races or len(races) < len(held):
        return ""
    if not any(each.contestants for each in races):
        return "unraced"
    return "eager" if all(each.winner == EAGER for each in races) else ""
