"""The graphs: where each ran, its operations as a table, and its source."""

import base64
from collections.abc import Sequence

from dynamo_ext.analysis.placement import partition_engine, place_graph
from dynamo_ext.analysis.repro_script import repro
from dynamo_ext.analysis.speed import gain
from dynamo_ext.formatting import clip, count, function_name, place, seconds, sentence
from dynamo_ext.records.common import FULL
from dynamo_ext.records.graph import Graph, Operation
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import blocks, plain_text
from dynamo_ext.widgets.blocks import Table
from dynamo_ext.widgets.graph_drawing.folds import modules_of
from dynamo_ext.widgets.graph_drawing.svg import colours, share
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, code, element, quiet_words, unbroken
from dynamo_ext.widgets.report import breaks, modules, speed

TITLE = "Graphs"
NOTHING = "No graph was captured."

_TEXT_ROWS, _TEXT_GRAPHS = 24, 8
_ARGUMENTS = 160
_IN_EAGER = "In eager"


def html(report: Report, most: int | None = markup.MOST) -> Markup:
    """Render the list of graphs, then each one folded."""
    if not report.graphs:
        return EMPTY
    share = max(most // len(report.graphs), 1) if most is not None else None
    folded = [_folded(report, graph, share) for graph in report.graphs[:most]]
    rest = markup.left_out(len(report.graphs), most, "graph")
    shown = blocks.html([overview(report, most=most)])
    return element("div", shown, *folded, rest)


def text(report: Report) -> str:
    """Render the list of graphs, and the first operations of the first ones."""
    if not report.graphs:
        return ""
    parts = [blocks.text([overview(report)])]
    for graph in report.graphs[:_TEXT_GRAPHS]:
        lasting = [op for op in graph.operations if not op.is_parameter]
        shown = lasting[:_TEXT_ROWS]
        folded = len(graph.operations) - len(lasting)
        headers = ["opcode", "name", "target", "args", "result"]
        whole = graph.operation_seconds
        if whole:
            headers.append(_IN_EAGER.lower())
        cells = []
        for op in shown:
            arguments = clip(f"{op.args} {_keywords(op)}".strip(), 60)
            timed = [_taken(op, whole)] if whole else []
            cells.append([op.opcode, op.name, op.target, arguments, op.result, *timed])
        table = plain_text.table(headers, cells)
        parts.append(f"{graph.id}: {describe(report, graph)}\n\n{table}")
        left = [f"{len(lasting) - len(shown):,} more operations"] if lasting[_TEXT_ROWS:] else []
        left += [f"{count(folded, 'parameter')} not listed"] if folded else []
        if left:
            parts.append(f"… {', '.join(left)}")
    if len(report.graphs) > _TEXT_GRAPHS:
        parts.append(f"… {len(report.graphs) - _TEXT_GRAPHS:,} more graphs")
    return "\n\n".join(parts)


def describe(report: Report, graph: Graph) -> str:
    """Describe a graph in one line: what ran it, its size and how it ended."""
    placement = place_graph(report, graph)
    size = count(graph.operation_count, "operation")
    ended = ""
    if graph.ended_by is not None and 0 <= graph.ended_by < len(report.breaks):
        ended = f", ended by a break: {clip(breaks.because(report.breaks[graph.ended_by]), 120)}"
    kept = f", {len(graph.kept):,} of them in {FULL}" if graph.kept else ""
    once = f", {graph.folded:,} normalised ones computed at compile time" if graph.folded else ""
    calls = max((part.calibrated for part in graph.partitions), default=0)
    ranges = f", calibrated on {count(calls, 'call')}" if calls else ""
    return f"{size} in {placement.label}{ranges}{kept}{once}{ended}"


def partitions(report: Report, graph: Graph) -> Markup:
    """Render the parts that engines took, as a bar and a table; empty for a graph taken whole."""
    if not graph.partitions:
        return EMPTY
    tints = colours(place_graph(report, graph).shares)
    shares, rows = [], []
    for part in graph.partitions:
        engine = partition_engine(report, graph, part)
        piece = element(
            "span",
            f"{engine} {part.operations}",
            class_=f"dx-share {tints[engine]}",
            style=f"flex:{max(part.operations, 1)}",
            title=f"{part.name}: {count(part.operations, 'operation')} in {engine}",
        )
        shares.append(piece)
        lowering = seconds(part.lower_seconds) + ", from disk" * part.from_disk
        numbers = [f"{part.operations:,}", f"{part.frozen:,}", lowering]
        # Why they stay in eager is under the operators: one more column would scroll.
        named = clip(", ".join(dict.fromkeys(part.targets)), 200)
        about = markup.join(filter(None, [named, sentence(part.reason)]), markup.BREAK)
        rows.append([part.name, engine, *numbers, about])
    last = "Operators, and why eager" if any(p.reason for p in graph.partitions) else "Operators"
    headers = ["Partition", "Engine", "ATen operations", "Frozen", "Lowering", last]
    table = markup.table(f"Partitions of {graph.id}", headers, rows, numeric={2, 3, 4})
    if len(shares) == 1:
        return table
    bar = element("div", markup.join(shares, " "), class_="dx-bar", aria_hidden="true")
    return element("div", bar, table)


def operations_table(graph: Graph, operations: Sequence[Operation]) -> Markup:
    """Render the FX table of some of a graph's operations."""
    whole = graph.operation_seconds
    rows = [
        [
            op.opcode,
            code(op.name),
            code(op.target),
            code(clip(op.args, _ARGUMENTS)),
            code(clip(_keywords(op), _ARGUMENTS)),
            code(op.result),
            *([_taken(op, whole)] if whole else []),
            unbroken(place(op.line)),
        ]
        for op in operations
    ]
    headers = ["Opcode", "Name", "Target", "Args", "Kwargs", "Result", "Line"]
    if whole:
        headers.insert(-1, _IN_EAGER)
    title = f"Operations of {graph.id}"
    return markup.table(title, headers, rows, class_="dx-fx", numeric={6} if whole else ())


def _taken(op: Operation, whole: float) -> str:
    return f"{seconds(op.seconds)}, {share(op, whole)}" if op.seconds else ""


def download(report: Report, graph: Graph) -> Markup:
    """A link that saves the graph as a script, made when it is followed by the browser alone."""
    script = base64.b64encode(repro(graph, report.title).encode()).decode()
    link = element(
        "a",
        f"Download {graph.id}.py",
        href=f"data:text/x-python;base64,{script}",
        download=f"{graph.id}.py",
    )
    return element("p", link, quiet_words(" runs this graph with torch alone"))


def overview(report: Report, title: str = "", most: int | None = None) -> Table:
    """One row a graph: where it ran, how often, how long."""
    names = {frame.id: function_name(frame.name) for frame in report.frames}
    rows = []
    modules = [modules_of(graph.operations) for graph in report.graphs[:most]]
    gains = len(speed.HEADERS) if any(map(gain, report.graphs)) else 1
    for graph, path in zip(report.graphs, modules, strict=False):
        name = names.get(graph.frame)
        rows.append(
            [
                graph.id,
                f"{name} ({graph.frame})" if name else graph.frame,
                *([path] if any(modules) else []),
                place_graph(report, graph).label,
                f"{graph.operation_count:,}",
                f"{graph.calls:,}",
                seconds(graph.compile_seconds) if graph.compiled_now else "reused",
                seconds(graph.run_seconds),
                *speed.cells(graph)[:gains],
            ]
        )
    numbers = ["Operations", "Calls", "Compile", "Run", *speed.HEADERS[:gains]]
    within = ["Modules"] if any(modules) else []
    headers = ["Graph", "Function", *within, "Ran in", *numbers]
    rows += blocks.row_of_left_out(len(report.graphs), most, len(headers))
    return Table("Graphs", headers, rows, {headers.index(name) for name in numbers}, title)


def _keywords(op: Operation) -> str:
    return op.kwargs if op.kwargs not in {"{}", "()"} else ""


def _folded(report: Report, graph: Graph, most: int | None) -> Markup:
    table = operations_table(graph, graph.operations[:most])
    rest = markup.left_out(len(graph.operations), most, "operation")
    inside = modules.html(report, graph, graph.operations, most)
    parts: list[object] = [partitions(report, graph), inside, table, rest]
    if graph.source.strip():
        source = markup.listing(graph.source, most, "more lines.")
        parts.append(markup.details("Source", source))
    return markup.titled(graph.id, *parts, words=describe(report, graph))
