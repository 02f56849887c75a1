"""Speedups, times and samples of a comparison as charts."""

from __future__ import annotations

import base64
import importlib.util
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dynamo_ext.errors import OptionError
from dynamo_ext.formatting import printable, seconds
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.widgets import drawn
from dynamo_ext.widgets.comparison import drawing, pareto
from dynamo_ext.widgets.comparison.number_text import size
from dynamo_ext.widgets.comparison.summary import counted, interval, ratio, verdict
from dynamo_ext.widgets.html.markup import Markup, element, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOTHING = "There is nothing to draw: no candidate was timed."
_HEADS = {
    "Speedup": "Speedup over the baseline, with its interval",
    "Time": "Median time of a call, with quartiles",
    "Samples": "Time of a call: all rounds, the line is the median",
    "Memory": "Memory that a call takes at most, above what was there before it",
    "Error": "Relative error of the results; the line joins those that none beats in both",
}
KINDS = tuple(_HEADS)
_WIDTH, _SQUARE, _ROW, _FRAME = 6.6, 3.4, 0.34, 0.75
"""Inches: of a chart, the height of one with points, that of a row, and what is around rows."""


class Chart:
    """A chart of ``kind`` (one of ``KINDS``) as SVG and PNG, with the words that stand for it.

    ``rows`` are the candidates to draw, the first one on top; ``log`` makes the axis logarithmic.
    """

    def __init__(
        self, record: Comparison, rows: Sequence[CandidateResult], kind: str, *, log: bool = False
    ) -> None:
        self.record, self.kind, self.log = record, kind, log
        has: dict[str, Callable[[CandidateResult], object]] = {
            "Speedup": lambda each: counted(record, each),
            "Memory": lambda each: each.peak_bytes is not None,
        }
        found = list(filter(has.get(kind, lambda each: each.timing), rows))
        self.rows = pareto.compared(record, rows) if kind == "Error" else found

    @property
    def alt(self) -> str:
        """The chart in words."""
        said = "; ".join(self._said(each) for each in self.rows)
        return f"{_HEADS[self.kind]}: {said}."

    def svg(self) -> Markup:
        """The chart for a page that keeps SVG, in the colours of its theme."""
        if problem := self._problem():
            return quiet(problem)
        # Another chart on the page must not have the same ids.
        with drawn.drawing(self.alt), io.StringIO() as out:
            self._figure(drawn.TEXT, drawn.QUIET).savefig(out, format="svg", transparent=True)
            source = out.getvalue()
        return drawn.themed(source, self.alt)

    def png(self) -> Markup:
        """The chart as an image of its own, dark on white whatever the theme is."""
        if problem := self._problem():
            return quiet(problem)
        with drawn.drawing(self.alt), io.BytesIO() as out:
            figure = self._figure("#1f1f1f", "#5f6368")
            figure.savefig(out, format="png", dpi=144, facecolor="white")
            data = base64.b64encode(out.getvalue()).decode("ascii")
        source = f"data:image/png;base64,{data}"
        image = element("img", src=source, alt=self.alt, width=round(_WIDTH * 96))
        return element("p", image.removesuffix("</img>"))

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw it on ``axes``, or in a new figure of pyplot's, in the colours of the style in use.

        Raises ``OptionError`` where there is nothing to draw, or matplotlib is not installed.
        """
        if not self.rows:
            raise OptionError(NOTHING)
        axes = axes or drawn.new_axes(*self._inches())
        from matplotlib import rcParams

        self._draw(axes, rcParams["text.color"], rcParams["axes.labelcolor"])
        return axes

    def _problem(self) -> str:
        if not self.rows:
            return NOTHING
        return "" if importlib.util.find_spec("matplotlib") else drawn.MISSING

    def _figure(self, text: str, quiet: str) -> Figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=self._inches(), layout="constrained")
        self._draw(figure.add_subplot(), text, quiet)
        return figure

    def _said(self, each: CandidateResult) -> str:
        name = printable(each.name)
        if self.kind == "Error":
            return pareto.said(each)
        if self.kind == "Speedup" and each.speedup:
            of = f"{ratio(each.speedup.ratio)}, interval {interval(each.speedup)}"
            return f"{name} {of}, {verdict(self.record, each)[2:]}"
        if self.kind == "Memory" and each.peak_bytes is not None:
            return f"{name} {size(each.peak_bytes)}"
        if each.timing is None:
            return name
        low, high = each.timing.quartiles
        median = seconds(each.timing.median)
        return f"{name} {median}, quartiles {seconds(low)} to {seconds(high)}"

    def _inches(self) -> tuple[float, float]:
        room = 1.6 if self.kind == "Samples" else 1.0
        tall = _SQUARE if self.kind == "Error" else _FRAME + _ROW * room * len(self.rows)
        return _WIDTH, tall

    def _draw(self, axes: Axes, text: str, quiet: str) -> None:
        from matplotlib.ticker import EngFormatter, MaxNLocator

        axes.set_xlabel(_HEADS[self.kind], color=quiet, fontsize=9, parse_math=False)
        if self.kind == "Error":
            pareto.draw(axes, self.rows, text, quiet)
            return
        drawing.draw(axes, self, text, quiet)
        if self.kind == "Memory":
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.xaxis.set_major_formatter(lambda value, _: size(value))
        else:
            ratios = self.kind == "Speedup"
            axes.xaxis.set_major_formatter("{x:g}×" if ratios else EngFormatter(unit="s"))
        if not self.log and self.kind == "Time":
            axes.set_xlim(left=0)
