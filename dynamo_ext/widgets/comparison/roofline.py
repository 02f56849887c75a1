"""What each candidate reaches under the machine's limits: a roofline (see ``machine_limit``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dynamo_ext.analysis.machine_limit import moved, read_rate
from dynamo_ext.formatting import percent, printable
from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.records.machine import MachineLimits
from dynamo_ext.widgets.comparison import drawing
from dynamo_ext.widgets.comparison.limits import share_of_limit
from dynamo_ext.widgets.comparison.number_text import amount

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROOFS = {FULL: "-", "bf16": "--", "fp16": "-.", "int8": ":"}
_COLOUR = "#4285f4"
_WIDER = 8.0
"""How many times wider than the points' own the axis of operations a byte is, to either side."""

_LABEL = 0.055
"""The height of a name, as a part of the axis."""


def compared(record: Comparison, rows: Sequence[CandidateResult]) -> list[CandidateResult]:
    """The rows that were timed, in a precision of which the machine's limit is known."""
    work, machine = record.work, record.machine
    if work is None or machine is None or not work.operations:
        return []
    return [r for r in rows if share_of_limit(record, r)]


def said(record: Comparison, each: CandidateResult) -> str:
    """A candidate's point in words."""
    _, reached = _place(record, each)
    share = percent(share_of_limit(record, each) or 0.0)
    return f"{printable(each.name)} {amount(reached, 'FLOP/s')}, {share} of its limit"


def draw(
    axes: Axes, record: Comparison, rows: Sequence[CandidateResult], text: str, quiet: str
) -> None:
    """Draw compared rows as points with their names, under the roof of each of their precisions."""
    points = [(*_place(record, each), share_of_limit(record, each) or 1.0) for each in rows]
    low, high = min(x for x, _, _ in points) / _WIDER, max(x for x, _, _ in points) * _WIDER
    bottom, top = min(y for _, y, _ in points) / 2, max(y / share for _, y, share in points) * 2
    _scale(axes)
    drawing.dress(axes, quiet, "Reached")
    axes.set_xlim(low, high)
    axes.set_ylim(bottom, top)
    if record.machine is not None and record.work is not None:
        for precision in dict.fromkeys(each.precision or FULL for each in rows):
            memory = read_rate(record.machine, moved(record.work, precision))
            _roof(axes, record.machine, memory, precision, text)
    apart = _LABEL * math.log(top / bottom)
    last = 0.0
    named = zip(rows, points, strict=True)
    for each, (x, y, share) in sorted(named, key=lambda pair: pair[1][1]):
        axes.plot([x], [y], marker="o", color="#2e9e5b", markersize=7)
        # Names of points that are near to one another would lie on one another.
        last = max(math.log(y), last + apart)
        drawing.label(axes, (x, math.exp(last)), f"{printable(each.name)} {percent(share)}", text)


def _scale(axes: Axes) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 3)))
        axis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter(EngFormatter(unit="FLOP/s"))


def _roof(axes: Axes, machine: MachineLimits, memory: float, precision: str, text: str) -> None:
    products = dict(machine.products)[precision]
    low, high = axes.get_xlim()
    ridge = min(max(products / memory, low), high)
    heights = [min(products, x * memory) for x in (low, ridge, high)]
    axes.plot([low, ridge, high], heights, color=_COLOUR, linestyle=_ROOFS[precision])
    words = f"{precision}: {amount(products, 'FLOP/s')}, {amount(memory, 'B/s')}"
    look = {"xytext": (0, 3), "va": "baseline", "fontsize": 8.5, "annotation_clip": None}
    drawing.label(axes, (high, heights[-1]), words, text, left=True, **look)


def _place(record: Comparison, each: CandidateResult) -> tuple[float, float]:
    """Operations for each byte that moves, and a second."""
    if record.work is None or each.timing is None:
        return 1.0, 1.0
    operations = record.work.operations
    return operations / moved(record.work, each.precision), operations / each.timing.median
