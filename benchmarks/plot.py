"""A page's plot: ratios by model, one mark for each of a few series, on a logarithmic axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

_MARKS = ("D", "o", "s", "^", "v", "P", "X", "<", ">", "*", "p", "h")
# Okabe and Ito's colours, which the colour-blind can tell apart; shapes tell as well.
_COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_ROW, _FRAME, _WIDTH = 0.27, 1.3, 8.6
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
_FINE = (0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4)
_NARROW = 2
_LEAST = (0.94, 1.06)


@dataclass(frozen=True)
class Point:
    """A ratio of a series in a row, with its 95 % interval."""

    series: str
    row: str
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Plot:
    """Points, and what their axis is called.

    The first series is drawn large, with intervals, and rows are in its order.
    """

    axis: str
    points: Sequence[Point]

    def save(self, path: Path) -> None:
        """Write it as SVG, the same bytes for the same points.

        Parameters
        ----------
        path
            The file; its folder is made.
        """
        settings: dict[str, Any] = {"svg.hashsalt": "dynamo_ext", "svg.fonttype": "none"}
        with style.context(["default", settings]):
            figure = self._figure()
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, format="svg", metadata={"Date": None})
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")

    def _figure(self) -> Figure:
        series = list(dict.fromkeys(point.series for point in self.points))
        leading = {each.row: each.ratio for each in self.points if each.series == series[0]}
        rows = list(dict.fromkeys(point.row for point in self.points))
        rows.sort(key=lambda row: -leading.get(row, 0.0))
        figure = Figure(figsize=(_WIDTH, _FRAME + _ROW * len(rows)), layout="constrained")
        axes = figure.subplots()
        places = {row: place for place, row in enumerate(rows)}
        for number, name in reversed(list(enumerate(series))):
            own = [each for each in self.points if each.series == name]
            across = [each.ratio for each in own]
            down = [places[each.row] for each in own]
            axes.plot(
                across,
                down,
                _MARKS[number % len(_MARKS)],
                color=_COLOURS[number % len(_COLOURS)],
                markersize=5 if number else 7,
                markerfacecolor="none" if number else _COLOURS[0],
                label=name,
            )
            if not number:
                low, high = ([getattr(each, end) for each in own] for end in ("low", "high"))
                axes.hlines(down, low, high, color=_COLOURS[0], linewidth=1.6)
        _dress(axes, rows, self.axis)
        handles, names = axes.get_legend_handles_labels()
        if len(series) > 1:
            figure.legend(
                handles[::-1], names[::-1], loc="outside upper left", ncols=8, fontsize=8,
                frameon=False, handletextpad=0.2, columnspacing=1.0,
            )  # fmt: skip
        return figure


def _dress(axes: Axes, rows: Sequence[str], name: str) -> None:
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    low, high = min(low, _LEAST[0]), max(high, _LEAST[1])
    ticks = _FINE if math.log(high / low) < math.log(_NARROW) else _STEPS
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlim(low, high)
    axes.axvline(1, color="#767676", linewidth=1)
    axes.set_yticks(range(len(rows)), list(rows), fontsize=9)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(alpha=0.25, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel(name)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
