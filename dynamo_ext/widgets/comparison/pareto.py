"""Speed against error, and the candidates that no other beats in both (the Pareto front)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dynamo_ext.formatting import printable
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.widgets.comparison.summary import counted, ratio
from dynamo_ext.widgets.drawn import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SMALLEST = 1e-9
"""Below it errors are drawn as one: they are those of float64."""


def error(candidate: CandidateResult) -> float | None:
    """The root mean square error of its results, relative to their size; ``None`` if unknown."""
    sqnr = candidate.accuracy[0].sqnr if candidate.accuracy else None
    return None if sqnr is None else max(10 ** (-sqnr / 20), _SMALLEST)


def compared(record: Comparison, rows: Sequence[CandidateResult]) -> list[CandidateResult]:
    """Those of the rows that have a speedup and an error."""
    return [r for r in rows if counted(record, r) and r.speedup and error(r) is not None]


def front(rows: Sequence[CandidateResult]) -> list[CandidateResult]:
    """Of compared rows those that none beats in speed and error, the most accurate first."""
    found: list[CandidateResult] = []
    for each in sorted(rows, key=lambda row: (_place(row)[0], -_place(row)[1])):
        if not found or _place(each)[1] > _place(found[-1])[1]:
            found.append(each)
    return found


def said(candidate: CandidateResult) -> str:
    """A candidate's point in words."""
    x, y = _place(candidate)
    return f"{printable(candidate.name)} {x:.1e}, {ratio(y)}"


def draw(axes: Axes, rows: Sequence[CandidateResult], text: str, quiet: str) -> None:
    """Draw compared rows as points with their names, and their front as a line."""
    axes.axhline(1, color=text, linewidth=1)
    best = front(rows)
    ends = zip(*map(_place, best), strict=True)
    axes.plot(*ends, color="#2e9e5b", linewidth=1.5, drawstyle="steps-post")
    for each in rows:
        x, y = _place(each)
        colour = "#2e9e5b" if each in best else quiet
        axes.plot([x], [y], marker="o", color=colour, markersize=7)
        name = printable(each.name)
        label(axes, (x, y), name, text, xytext=(6, 6), va="baseline")
    axes.set_xscale("log")
    errors = [_place(each)[0] for each in rows]
    # So wide that a power of ten is on it, for other labels would overlap.
    axes.set_xlim(min(errors) / 3.5, max(errors) * 3.5)
    axes.xaxis.set_minor_formatter("")
    axes.margins(y=0.2)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:g}×")
    axes.set_ylabel("Speedup", color=quiet, fontsize=9)


def _place(candidate: CandidateResult) -> tuple[float, float]:
    return error(candidate) or 0.0, candidate.speedup.ratio if candidate.speedup else 0.0
