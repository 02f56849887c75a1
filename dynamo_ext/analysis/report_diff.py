"""What changed between two runs: graphs, breaks, guards, fallbacks, speed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamo_ext.analysis.break_location import origin
from dynamo_ext.analysis.breaks import cause_of
from dynamo_ext.analysis.guards import condition
from dynamo_ext.analysis.placement import coverage, place_graph
from dynamo_ext.formatting import count, function_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dynamo_ext.records.report import Fallback, Graph, GraphBreak, Report

_DURATIONS = {"Compile", "Run"}


@dataclass(frozen=True)
class Figure:
    """A number of both runs; ``seconds`` says that it is a duration."""

    name: str
    before: float
    after: float
    seconds: bool = False


@dataclass(frozen=True)
class Changed:
    """What one kind of thing gained and lost, each as a sentence, with how often."""

    kind: str
    gone: tuple[tuple[str, int], ...]
    new: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Difference:
    """Two runs side by side.

    ``before`` and ``after`` are their titles with mode and backend. ``figures`` has every number
    of the summary; ``changed`` only the kinds that differ. ``backend_changed`` says that the two
    ran on different backends, so that seconds depend on the backend as well as on the code, and
    ``code_changed`` that the texts of their cells differ.
    """

    before: str
    after: str
    figures: tuple[Figure, ...]
    changed: tuple[Changed, ...]
    backend_changed: bool
    code_changed: bool = False


def difference(before: Report, after: Report) -> Difference:
    """Compare two runs, of one cell as a rule."""
    olds, news = _numbers(before), _numbers(after)
    figures = [Figure(name, olds[name], news[name], name in _DURATIONS) for name in olds]
    had, has = _things(before), _things(after)
    changed = [
        Changed(kind, tuple((old - new).items()), tuple((new - old).items()))
        for kind in had
        for old, new in [(had[kind], has[kind])]
        if old != new
    ]
    return Difference(
        _title(before),
        _title(after),
        tuple(figures),
        tuple(changed),
        before.backend != after.backend,
        _code(before) != _code(after),
    )


def _code(report: Report) -> str:
    """The text of a run's cell without its magics: they say how it runs, not what."""
    lines = report.cell.source.strip().split("\n") if report.cell is not None else []
    return "\n".join(line for line in lines if not line.lstrip().startswith("# %%"))


def _title(report: Report) -> str:
    return " · ".join(filter(None, [report.title, report.mode, report.backend]))


def _numbers(report: Report) -> dict[str, float]:
    return {
        "Graphs": len(report.graphs),
        "Operations": sum(graph.operation_count for graph in report.graphs),
        "ATen operations in the engine": coverage(report).in_engine,
        "Breaks": len(report.breaks),
        "Guards": len(report.guards),
        "Recompiles": sum(each.count for each in report.recompiles),
        "Fallbacks": len(report.fallbacks),
        "Compile": report.compile_seconds,
        "Run": report.run_seconds,
    }


def _things(report: Report) -> dict[str, Counter[str]]:
    """What a run has of each kind, in words, and how often."""
    return {
        "Graphs": Counter(_graph(report, graph) for graph in report.graphs),
        "Breaks": _counted((_break(each), each.count) for each in report.breaks),
        "Guarded conditions": Counter({condition(guard): 1 for guard in report.guards}),
        "Recompiles": _counted(
            (f"{function_name(each.function)}: {each.guard}", each.count)
            for each in report.recompiles
        ),
        "Fallbacks": _counted((_fallback(each), each.count) for each in report.fallbacks),
    }


def _counted(found: Iterable[tuple[str, int]]) -> Counter[str]:
    whole: Counter[str] = Counter()
    for words, times in found:
        whole[words] += times
    return whole


def _graph(report: Report, graph: Graph) -> str:
    """A graph by what it computes, on what, and where: its id may differ from run to run."""
    calls = [op for op in graph.operations if op.opcode.startswith("call_")]
    shown = ", ".join(dict.fromkeys(op.target.rsplit(".", 1)[-1] for op in calls[:4]))
    more = ", …" if len(calls) > len(calls[:4]) else ""
    inputs = [op for op in graph.operations if op.opcode == "placeholder" and op.shape is not None]
    sizes = "; ".join(f"({', '.join(op.shape or ())})" for op in inputs[:3])
    where = place_graph(report, graph).label
    return f"{count(len(calls), 'operation')} ({shown}{more}) of {sizes or 'no tensor'}, in {where}"


def _break(each: GraphBreak) -> str:
    line, because = origin(each), cause_of(each).because
    code = line.code.strip().rstrip(":") if line is not None else ""
    return f"`{code}`: {because}" if code else because


def _fallback(each: Fallback) -> str:
    said = (each.message or each.exception).split("\n")[0]
    return f"{each.stage}: {each.operator or each.scope}, {said}"
