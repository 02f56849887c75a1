"""Several runs: those of a session, one a row, and two side by side."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from dynamo_ext.analysis.break_location import origin
from dynamo_ext.analysis.breaks import cause_of
from dynamo_ext.analysis.guards import condition
from dynamo_ext.analysis.placement import coverage, place_graph
from dynamo_ext.formatting import clip, count, function_name, printable, seconds
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Fallback, Report
from dynamo_ext.widgets.blocks import Block, Items, Quiet, Shown, Table
from dynamo_ext.widgets.report import static, summary

_COUNTS = ("Graphs", "Breaks", "Recompiles", "Fallbacks", "Compile", "Run")
_HEADERS = ("Cell", "Backend", "Outcome", *_COUNTS)
_NUMBERS = set(range(3, len(_HEADERS)))
_MAX_ROWS = 20
_MAX_CHARS = 200


def history(reports: Sequence[Report]) -> Shown:
    """Runs as a table, the newest last."""
    rows = []
    for each in reports:
        backend, counts = f"{each.mode} {each.backend}".strip(), dict(summary.counts(each))
        lead = [clip(each.title, 40), clip(backend, 40), summary.status(each)[1]]
        rows.append([*lead, *(counts[name] for name in _COUNTS)])
    none = "" if reports else "No %%dynamo cell has run yet."
    return Shown([Table("Runs", _HEADERS, rows, _NUMBERS), none])


def side_by_side(before: Report, after: Report) -> Shown:
    """A table of the figures of two runs, then what is gone and what is new, by kind."""
    return Shown(_differences(before, after))


def _differences(before: Report, after: Report) -> Iterator[Block]:
    yield f"{static.title(before)} → {static.title(after)}"
    if _code(before) != _code(after):
        yield Quiet("The cells' texts differ. %dynamo diff 5 7 compares two runs of your choice.")
    olds, news = numbers(before), numbers(after)
    rows = [_row(name, olds[name], news[name]) for name in olds]
    yield Table("Two runs", ("", "Before", "After", "Change"), rows, {1, 2, 3})
    had, has = things(before), things(after)
    for kind in had:
        gone, new = had[kind] - has[kind], has[kind] - had[kind]
        if gone or new:
            title = f"{kind}: {gone.total():,} gone, {new.total():,} new"
            yield Items(title, [*_lines("−", gone), *_lines("+", new)])
    if had == has:
        yield "Graphs, breaks, guards, recompiles and fallbacks are the same."
    if before.backend != after.backend:
        yield Quiet("The backends differ, so the seconds depend on them as well as on the code.")


def _code(report: Report) -> str:
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
    calls = [op for op in graph.operations if op.computes]
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


def _row(name: str, before: float, after: float) -> list[str]:
    if name in {"Compile", "Run"}:
        change = f"× {after / before:.2f}" if before > 0 and after > 0 else ""
        return [name, seconds(before), seconds(after), change]
    gain = int(after - before)
    return [name, f"{before:,.0f}", f"{after:,.0f}", f"{gain:+,}" if gain else "="]


def _lines(sign: str, items: Counter[str]) -> Iterator[str]:
    for words, number in list(items.items())[:_MAX_ROWS]:
        times = f" ({number:,} times)" if number > 1 else ""
        yield f"{sign} {clip(printable(words), _MAX_CHARS)}{times}"
    if len(items) > _MAX_ROWS:
        yield f"{sign} {len(items) - _MAX_ROWS:,} more"
