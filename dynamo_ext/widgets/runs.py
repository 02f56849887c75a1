"""Several runs: those of a session, one a row, and two side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.formatting import clip, printable, seconds
from dynamo_ext.widgets.blocks import Block, Items, Quiet, Shown, Table
from dynamo_ext.widgets.report import autotuning, summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dynamo_ext.analysis.report_diff import Changed, Difference, Figure
    from dynamo_ext.records.report import Report

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


def side_by_side(found: Difference) -> Shown:
    """A table of the figures of two runs, then what is gone and what is new, by kind."""
    return Shown(_differences(found))


def _differences(found: Difference) -> Iterator[Block]:
    yield f"{found.before} → {found.after}"
    if found.code_changed:
        yield Quiet("The cells' texts differ. %dynamo diff 5 7 compares two runs of your choice.")
    headers = ("", "Before", "After", "Change")
    yield Table("Two runs", headers, [_row(figure) for figure in found.figures], {1, 2, 3})
    yield from map(_items, found.changed)
    if not found.changed:
        yield "Graphs, breaks, guards, recompiles and fallbacks are the same."
    if found.backend_changed:
        yield Quiet("The backends differ, so the seconds depend on them as well as on the code.")


def _row(figure: Figure) -> list[str]:
    if figure.seconds:
        shown = [seconds(figure.before), seconds(figure.after)]
        both = figure.before > 0 and figure.after > 0
        change = f"× {figure.after / figure.before:.2f}" if both else ""
        return [figure.name, *shown, change]
    gain = int(figure.after - figure.before)
    return [
        figure.name,
        f"{figure.before:,.0f}",
        f"{figure.after:,.0f}",
        f"{gain:+,}" if gain else "=",
    ]


def _lines(each: Changed) -> Iterator[str]:
    for sign, items in (("−", each.gone), ("+", each.new)):
        for words, count in items[:_MAX_ROWS]:
            times = f" ({count:,} times)" if count > 1 else ""
            yield f"{sign} {clip(printable(words), _MAX_CHARS)}{times}"
        if len(items) > _MAX_ROWS:
            yield f"{sign} {len(items) - _MAX_ROWS:,} more"


def _items(each: Changed) -> Items:
    gone, new = (sum(times for _, times in items) for items in (each.gone, each.new))
    return Items(f"{each.kind}: {gone:,} gone, {new:,} new", list(_lines(each)))
