"""Every captured graph on every backend, and whether the mix of the fastest is worth it."""

from collections.abc import Sequence

from dynamo_ext.formatting import clip, count, printable, seconds, sentence
from dynamo_ext.records.comparison import Comparison, GraphComparison, GraphTime
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.comparison.summary import WORDS, interval, ratio
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, LEFT, RIGHT, Markup, element, prose, quiet_words

TITLE = "Graphs"
NOTHING = "No graph was raced by itself: ask for it with --per-graph (per_graph=True)."
_LINES, _REASON, _TEXT_BACKENDS, _NAMED = 80, 240, 5, 6
_WORDS = WORDS | {"unmeasured": "– not raced", "measured": ""}


def backends(record: Comparison) -> list[str]:
    """The backends that graphs were raced on, in the order of the record."""
    return list(dict.fromkeys(time.backend for each in record.graphs for time in each.times))


def html(record: Comparison) -> Markup:
    """Render the matrix, the mix, and each graph folded."""
    if not record.graphs:
        return EMPTY
    folds = [markup.titled(each.graph, graph(each), words=_fastest(each)) for each in record.graphs]
    return element("div", matrix(record), mix(record), *folds)


def matrix(record: Comparison, shown: Sequence[str] | None = None) -> Markup:
    """Render one row a graph and one column a backend, the fastest one marked."""
    names = [name for name in backends(record) if shown is None or name in shown]
    heads = ["Graph", "Operations", "Calls", *map(printable, names)]
    rows = []
    for each in record.graphs:
        cells = [_cell(each, _time(each, name)) for name in names]
        rows.append(_matrix_row(each.graph, each.operations, each.calls, cells))
    if len(record.graphs) > 1:
        operations = sum(each.operations for each in record.graphs)
        calls = sum(each.calls for each in record.graphs)
        sums = [_sum(record, name) for name in names]
        cells = [element("td", seconds(each) if each else "–", style=RIGHT) for each in sums]
        rows.append(_matrix_row("One run", operations, calls, cells, "dx-sum"))
    head = markup.row("th", heads, range(1, len(heads)), scope="col")
    grid = markup.grid("Time of each graph on each backend", head, rows, "dx-compare")
    key = "★ the fastest right one. Median of one call of the graph; speedup over eager below it."
    wide = markup.region(grid, "Graphs and backends: scrolls sideways")
    return element("div", wide, markup.quiet(key))


def _matrix_row(
    name: str, operations: int, calls: int, cells: Sequence[Markup], class_: str | None = None
) -> Markup:
    numbers = [element("td", f"{number:,}", style=RIGHT) for number in (operations, calls)]
    head = element("th", name, scope="row", style=LEFT)
    return element("tr", head, *numbers, *cells, class_=class_)


def mix(record: Comparison) -> Markup:
    """Say what the best backend for each graph comes to, end to end."""
    said = mix_words(record)
    return element("p", said, class_="dx-headline") if said else EMPTY


def mix_words(record: Comparison) -> str:
    """The mix in words; empty where none was raced."""
    made = record.mix
    if made is None:
        return ""
    chosen: dict[str, list[str]] = {}
    for name, backend in made.choice:
        chosen.setdefault(printable(backend), []).append(name)
    choice = "; ".join(
        f"{backend} for {', '.join(names) if len(names) <= _NAMED else count(len(names), 'graph')}"
        for backend, names in chosen.items()
    )
    said = f"Mix of the fastest ({choice or 'eager throughout'}): "
    said += f"the graphs' gains promise {ratio(made.predicted)}"
    if made.speedup is None:
        return f"{said}; it was not raced end to end."
    said += f", end to end it is {ratio(made.speedup.ratio)} ({interval(made.speedup)}). "
    sign, verb = ("✓", "holds") if made.holds else ("✗", "does not hold")
    said += f"{sign} The sum of the wins {verb}."
    best = record.best
    if best is not None and best.speedup is not None:
        if best.speedup.low > made.speedup.high:
            said += f" {printable(best.name)} alone is faster ({ratio(best.speedup.ratio)})."
        elif made.speedup.low > best.speedup.high:
            said += f" It beats {printable(best.name)} alone ({ratio(best.speedup.ratio)})."
        else:
            said += f" {printable(best.name)} alone may do as well ({ratio(best.speedup.ratio)})."
    return said


def graph(graph: GraphComparison, limit: int | None = _LINES) -> Markup:
    """Render one graph: a row a backend, fastest first, and its source."""
    times = sorted(graph.times, key=lambda t: t.timing.median if t.timing else float("inf"))
    headers = ["Backend", "Median", "Quartiles", "Speedup", "Outcome", "Why"]
    rows = [_row(graph, time) for time in times]
    if not any(row[-1] for row in rows):
        headers, rows = headers[:-1], [row[:-1] for row in rows]
    table = markup.table(f"Graph {graph.graph}", headers, rows, numeric={1, 2, 3})
    parts: list[object] = [table]
    if graph.source.strip():
        source = markup.listing(graph.source, limit, "more lines are in the record.")
        parts.append(markup.details("Source", source, opened=limit is None))
    return element("div", *parts)


def text(record: Comparison) -> str:
    """Render the matrix and the mix for a terminal."""
    if not record.graphs:
        return ""
    names = backends(record)
    few = len(names) <= _TEXT_BACKENDS
    headers = ["Graph", "Ops", "Calls", "Fastest", *(names if few else ["Median", "Speedup"])]
    rows = []
    for each in record.graphs:
        best = _time(each, each.fastest)
        brief = [_plain(best), ratio(best.speedup.ratio) if best and best.speedup else "–"]
        cells = [_plain(_time(each, name)) for name in names] if few else brief
        lead = [each.graph, f"{each.operations:,}", f"{each.calls:,}", each.fastest or "–"]
        rows.append([*lead, *cells])
    numeric = {1, 2, *range(4, len(headers))}
    table = plain_text.table(headers, rows, numeric=numeric)
    return "\n\n".join(filter(None, [table, plain_text.paragraph(mix_words(record))]))


def _plain(time: GraphTime | None) -> str:
    if time is None:
        return "–"
    if time.outcome == "eager":
        return "○ eager"
    return seconds(time.timing.median) if time.timing else _WORDS[time.outcome]


def _time(graph: GraphComparison, backend: str) -> GraphTime | None:
    return next((time for time in graph.times if time.backend == backend), None)


def _cell(graph: GraphComparison, time: GraphTime | None) -> Markup:
    if time is None:
        return element("td", "–", style=RIGHT)
    word = _WORDS[time.outcome]
    if time.timing is None or time.outcome == "wrong":
        reason = clip(printable(time.reason), _REASON) or None
        return element("td", element("span", word, title=reason), style=RIGHT)
    fastest = time.backend == graph.fastest
    median = seconds(time.timing.median)
    parts: list[object] = [element("b", f"★ {median}") if fastest else median]
    below = word or (ratio(time.speedup.ratio) if time.speedup else "")
    if below:
        parts += [markup.BREAK, quiet_words(below)]
    style = f"{RIGHT};white-space:nowrap"
    return element("td", *parts, style=style, class_="dx-won" if fastest else None)


def _row(graph: GraphComparison, time: GraphTime) -> list[object]:
    low, high = time.timing.quartiles if time.timing else (0.0, 0.0)
    speedup = time.speedup if time.outcome == "measured" else None
    word = "★ fastest" if time.backend == graph.fastest else _WORDS[time.outcome]
    if not word and speedup is not None:
        word = _WORDS[speedup.verdict]
    return [
        printable(time.backend),
        seconds(time.timing.median) if time.timing else "–",
        f"{seconds(low)} – {seconds(high)}" if time.timing else "–",
        f"{ratio(speedup.ratio)} ({interval(speedup)})" if speedup else "–",
        word,
        prose(sentence(clip(printable(time.reason), _REASON))) if time.reason else "",
    ]


def _sum(record: Comparison, backend: str) -> float:
    """Seconds of one run in the graphs; 0 where not every one was timed and right."""
    times = [(_time(each, backend), each.calls) for each in record.graphs]
    right = [(t.timing, n) for t, n in times if t and t.outcome in {"measured", "eager"}]
    known = [timing.median * calls for timing, calls in right if timing]
    return sum(known) if len(known) == len(times) else 0.0


def _fastest(graph: GraphComparison) -> str:
    size = count(graph.operations, "operation")
    best = _time(graph, graph.fastest)
    if best is None:
        return f"{size}, none could be chosen"
    gain = f" ({ratio(best.speedup.ratio)})" if best.speedup else ""
    return f"{size}, {printable(graph.fastest)} is fastest{gain}"
