"""Several runs: those of a session, one a row, and two side by side."""

from collections import Counter
from collections.abc import Iterator, Sequence

from dynamo_ext.analysis import report_diff
from dynamo_ext.formatting import clip, printable, seconds
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.blocks import Block, Items, Quiet, Shown, Table
from dynamo_ext.widgets.report import autotuning, static, summary

_COUNTS = ("Graphs", "Breaks", "Recompiles", "Fallbacks", "Compile", "Run")
_HEADERS = ("Cell", "Backend", "Outcome", *_COUNTS)
_NUMBERS = set(range(3, len(_HEADERS)))
_MAX_ROWS = 20
_MAX_CHARS = 200


def history(reports: Sequence[Report]) -> Shown:
    """Runs as a table, the newest last, and how often each backend won."""
    rows = []
    for each in reports:
        backend, counts = f"{each.mode} {each.backend}".strip(), dict(summary.counts(each))
        lead = [clip(each.title, 40), clip(backend, 40), summary.status(each)[1]]
        rows.append([*lead, *(counts[name] for name in _COUNTS)])
    won = autotuning.over(reports) if reports else "No %%dynamo cell has run yet."
    return Shown([Table("Runs", _HEADERS, rows, _NUMBERS), won])


def side_by_side(before: Report, after: Report) -> Shown:
    """A table of the figures of two runs, then what is gone and what is new, by kind."""
    return Shown(_differences(before, after))


def _differences(before: Report, after: Report) -> Iterator[Block]:
    yield f"{static.title(before)} → {static.title(after)}"
    if report_diff.code(before) != report_diff.code(after):
        yield Quiet("The cells' texts differ. %dynamo diff 5 7 compares two runs of your choice.")
    olds, news = report_diff.numbers(before), report_diff.numbers(after)
    rows = [_row(name, olds[name], news[name]) for name in olds]
    yield Table("Two runs", ("", "Before", "After", "Change"), rows, {1, 2, 3})
    had, has = report_diff.things(before), report_diff.things(after)
    yield from (_items(kind, had[kind] - has[kind], has[kind] - had[kind]) for kind in had)
    if had == has:
        yield "Graphs, breaks, guards, recompiles and fallbacks are the same."
    if before.backend != after.backend:
        yield Quiet("The backends differ, so the seconds depend on them as well as on the code.")


def _row(name: str, before: float, after: float) -> list[str]:
    if name in {"Compile", "Run"}:
        change = f"× {after / before:.2f}" if before > 0 and after > 0 else ""
        return [name, seconds(before), seconds(after), change]
    gain = int(after - before)
    return [name, f"{before:,.0f}", f"{after:,.0f}", f"{gain:+,}" if gain else "="]


def _items(kind: str, gone: Counter[str], new: Counter[str]) -> Block:
    if not gone and not new:
        return ""
    lines = [*_lines("−", gone), *_lines("+", new)]
    return Items(f"{kind}: {gone.total():,} gone, {new.total():,} new", lines)


def _lines(sign: str, items: Counter[str]) -> Iterator[str]:
    for words, count in list(items.items())[:_MAX_ROWS]:
        times = f" ({count:,} times)" if count > 1 else ""
        yield f"{sign} {clip(printable(words), _MAX_CHARS)}{times}"
    if len(items) > _MAX_ROWS:
        yield f"{sign} {len(items) - _MAX_ROWS:,} more"
