"""What code reaches under a machine's limits, drawn: a roofline (see ``machine_limit``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamo_ext.analysis.machine_limit import computed_in, moved, read_rate
from dynamo_ext.formatting import listing, percent, printable
from dynamo_ext.records.common import FULL
from dynamo_ext.records.machine import MachineLimits, Work
from dynamo_ext.widgets.comparison import drawing
from dynamo_ext.widgets.comparison.number_text import amount

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEAD = "Operations for each byte that moves, and the share of the limit that is reached"

_ROOFS = {FULL: "-", "bf16": "--", "fp16": "-.", "int8": ":"}
_COLOUR = "#4285f4"
_WIDER = 8.0
"""How many times wider than the points' own the axis of operations a byte is, to either side."""

_LABEL = 0.055
"""The height of a name, as a part of the axis."""


@dataclass(frozen=True)
class Point:
    """Code that computes products, in so many seconds and a precision: a ``share`` of its limit."""

    name: str
    work: Work
    precision: str
    seconds: float
    share: float

    @property
    def place(self) -> tuple[float, float]:
        """Operations for each byte that moves, and a second."""
        operations = self.work.operations
        return operations / moved(self.work, self.precision), operations / self.seconds

    @property
    def said(self) -> str:
        """The point in words."""
        reached = amount(self.place[1], "FLOP/s")
        return f"{printable(self.name)} {reached}, {percent(self.share)} of its limit"


def draw(
    axes: Axes, machine: MachineLimits, points: Sequence[Point], text: str, quiet: str
) -> None:
    """Draw points with their names, under the roofs of each of their precisions."""
    wide, tall = zip(*(each.place for each in points), strict=True)
    bottom, top = min(tall) / 2, max(y / p.share for y, p in zip(tall, points, strict=True)) * 2
    _scale(axes)
    drawing.dress(axes, quiet, "Reached")
    axes.set_xlim(min(wide) / _WIDER, max(wide) * _WIDER)
    axes.set_ylim(bottom, top)
    roofs: dict[str, set[float]] = {}
    for each in points:
        memory = read_rate(machine, moved(each.work, each.precision))
        roofs.setdefault(computed_in(each.work, each.precision), set()).add(memory)
    for precision, memories in roofs.items():
        _roof(axes, machine, sorted(memories), precision, text)
    apart = _LABEL * math.log(top / bottom)
    last = 0.0
    for each in sorted(points, key=lambda point: point.place[1]):
        x, y = each.place
        axes.plot([x], [y], marker="o", color="#2e9e5b", markersize=7)
        # Names of points that are near to one another would lie on one another.
        last = max(math.log(y), last + apart)
        words = f"{printable(each.name)} {percent(each.share)}"
        # Beside its point, it would lie on a roof that is near.
        drawing.label(axes, (x, math.exp(last)), words, text, xytext=(8, -8))


def _scale(axes: Axes) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 3)))
        axis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter(EngFormatter(unit="FLOP/s"))


def _roof(
    axes: Axes, machine: MachineLimits, memories: Sequence[float], precision: str, text: str
) -> None:
    """A roof; what fits in a cache has a steeper side."""
    products = dict(machine.products)[precision]
    low, high = axes.get_xlim()
    for memory in memories:
        ridge = min(max(products / memory, low), high)
        heights = [min(products, x * memory) for x in (low, ridge, high)]
        axes.plot([low, ridge, high], heights, color=_COLOUR, linestyle=_ROOFS[precision])
    sides = listing([amount(memory, "B/s") for memory in memories])
    words = f"{precision}: {amount(products, 'FLOP/s')}, {sides}"
    look = {"xytext": (0, 3), "va": "baseline", "fontsize": 8.5, "annotation_clip": None}
    drawing.label(axes, (high, heights[-1]), words, text, left=True, **look)
