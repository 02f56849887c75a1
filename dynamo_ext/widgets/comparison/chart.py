"""Speedups, times and samples as charts: SVG in the theme's colours, PNG where SVG is stripped."""

from __future__ import annotations

import base64
import importlib.util
import io
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dynamo_ext.errors import OptionError
from dynamo_ext.formatting import printable, seconds
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.widgets.comparison import drawing, pareto, roofline
from dynamo_ext.widgets.comparison.limits import MEASURE
from dynamo_ext.widgets.comparison.number_text import size
from dynamo_ext.widgets.comparison.summary import counted, interval, ratio, verdict
from dynamo_ext.widgets.html.markup import Markup, element, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOTHING = "There is nothing to draw: no candidate was timed."
MISSING = "Charts need matplotlib: pip install matplotlib"
_HEADS = {
    "Speedup": "Speedup over the baseline, with its interval",
    "Time": "Median time of a call, with quartiles",
    "Samples": "Time of a call: all rounds, the line is the median",
    "Memory": "Memory that a call takes at most, above what was there before it",
    "Error": "Relative error of the results; the line joins those that none beats in both",
    "Roofline": "Operations for each byte that moves, and the share of the limit that is reached",
}
KINDS = tuple(_HEADS)
_POINTS = {"Error": pareto, "Roofline": roofline}
"""Charts with a point for each candidate, in place of a row."""

# Stand-ins: matplotlib writes colours, and these become the theme's own in the SVG.
_TEXT, _QUIET = "#010203", "#040506"
_THEME = {
    _TEXT: "var(--jp-ui-font-color1, currentColor)",
    _QUIET: "var(--jp-ui-font-color2, currentColor)",
}
_WIDTH, _ROW, _FRAME, _SQUARE = 6.6, 0.34, 0.75, 3.4
# Drawing reads matplotlib's global settings.
_lock = threading.Lock()


class Chart:
    """A chart of ``kind`` (one of ``KINDS``) as SVG and PNG, with the words that stand for it.

    ``rows`` are the candidates to draw, the first one on top; ``log`` makes the axis logarithmic.
    """

    def __init__(
        self, record: Comparison, rows: Sequence[CandidateResult], kind: str, *, log: bool = False
    ) -> None:
        self.record, self.kind, self.log = record, kind, log
        if kind in _POINTS:
            self.rows = _POINTS[kind].compared(record, rows)
        elif kind == "Speedup":
            self.rows = [each for each in rows if counted(record, each)]
        elif kind == "Memory":
            self.rows = [each for each in rows if each.peak_bytes is not None]
        else:
            self.rows = [each for each in rows if each.timing is not None]

    @property
    def alt(self) -> str:
        """The chart in words."""
        said = "; ".join(self._said(each) for each in self.rows)
        return f"{_HEADS[self.kind]}: {said}."

    def _said(self, each: CandidateResult) -> str:
        name = printable(each.name)
        if self.kind in _POINTS:
            return str(_POINTS[self.kind].said(self.record, each))
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

    def svg(self) -> Markup:
        """The chart for a page that keeps SVG, in the colours of its theme."""
        if problem := self._problem():
            return quiet(problem)
        # Another chart on the page must not have the same ids.
        with _drawing(self.alt), io.StringIO() as out:
            self._figure(_TEXT, _QUIET).savefig(out, format="svg", transparent=True)
            source = out.getvalue()
        return _themed(source, self.alt)

    def png(self) -> Markup:
        """The chart as an image of its own, dark on white whatever the theme is."""
        if problem := self._problem():
            return quiet(problem)
        with _drawing(self.alt), io.BytesIO() as out:
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
            raise OptionError(self._problem())
        axes = axes or new_axes(*self._inches())
        from matplotlib import rcParams

        self._draw(axes, rcParams["text.color"], rcParams["axes.labelcolor"])
        return axes

    def _problem(self) -> str:
        if not self.rows:
            return MEASURE if self.kind == "Roofline" and not self.record.machine else NOTHING
        return "" if importlib.util.find_spec("matplotlib") else MISSING

    def _figure(self, text: str, quiet: str) -> Figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=self._inches(), layout="constrained")
        self._draw(figure.add_subplot(), text, quiet)
        return figure

    def _inches(self) -> tuple[float, float]:
        room = 1.6 if self.kind == "Samples" else 1.0
        tall = _SQUARE if self.kind in _POINTS else _FRAME + _ROW * room * len(self.rows)
        return _WIDTH, tall

    def _draw(self, axes: Axes, text: str, quiet: str) -> None:
        from matplotlib.ticker import EngFormatter, MaxNLocator

        axes.set_xlabel(_HEADS[self.kind], color=quiet, fontsize=9, parse_math=False)
        if self.kind in _POINTS:
            _POINTS[self.kind].draw(axes, self.record, self.rows, text, quiet)
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


def new_axes(wide: float, tall: float) -> Axes:
    """Axes in a new figure of pyplot's, in inches; ``OptionError`` without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        message = "A plot needs matplotlib, which is not installed."
        raise OptionError(message, "pip install matplotlib")
    from matplotlib import pyplot as plt

    return plt.figure(figsize=(wide, tall), layout="constrained").add_subplot()


@contextmanager
def _drawing(salt: str) -> Iterator[None]:
    """Draw with matplotlib's own defaults: a user's style would spoil the contrast."""
    from matplotlib import style

    settings: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": salt}
    with _lock, style.context(["default", settings]), warnings.catch_warnings():
        # A name may hold a letter that the font lacks.
        warnings.simplefilter("ignore")
        yield


def _themed(source: str, alt: str) -> Markup:
    """An SVG for the middle of a page, in the colours of the theme."""
    source = source[source.index("<svg") :]
    source = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", source, flags=re.DOTALL
    )
    # Groups are numbered alike in every chart, and nothing refers to them.
    source = re.sub(r'<g id="[^"]*"', "<g", source)
    source = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font: \1 system-ui, sans-serif", source)
    for colour, themed in _THEME.items():
        source = source.replace(colour, themed)
    opening, _, rest = source.partition(">")
    opening = re.sub(r'(width|height)="[^"]*"', "", opening)
    frame = element("svg", role="img", aria_label=alt, class_="dx-chart")
    drawn = Markup(str(frame)[: -len("></svg>")] + opening.removeprefix("<svg") + ">" + rest)
    return element("div", drawn, class_="dx-wide", tabindex="0", role="group", aria_label="Chart")
