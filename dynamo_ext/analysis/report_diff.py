"""What two runs are compared by: graphs, breaks, guards, fallbacks, speed."""

from collections import Counter
from collections.abc import Iterable

from dynamo_ext.analysis.break_location import origin
from dynamo_ext.analysis.breaks import cause_of
from dynamo_ext.analysis.guards import condition
from dynamo_ext.analysis.placement import coverage, place_graph
from dynamo_ext.formatting import count, function_name
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Fallback, Report


def code(report: Report) -> str:
    """The text of a run's cell without its magics: they say how it runs, not what."""
    lines = report.cell.source.strip().split("\n") if report.cell is not None else []
    return "\n".join(line for line in lines if not line.lstrip().startswith("# %%"))


def numbers(report: Report) -> dict[str, float]:
    """What a run counted, and its seconds of ``Compile`` and ``Run``, by name."""
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


def things(report: Report) -> dict[str, Counter[str]]:
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
    for words, number in found:
        whole[words] += number
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


def _break(graph_break: GraphBreak) -> str:
    line, because = origin(graph_break), cause_of(graph_break).because
    code = line.code.strip().rstrip(":") if line is not None else ""
    return f"`{code}`: {because}" if code else because


def _fallback(fallback: Fallback) -> str:
    said = (fallback.message or fallback.exception).split("\n")[0]
    return f"{fallback.stage}: {fallback.operator or fallback.scope}, {said}"
