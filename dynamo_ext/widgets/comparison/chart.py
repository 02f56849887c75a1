"""Speedups and samples of a comparison as charts."""

from __future__ import annotations

import base64
import importlib.util
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dynamo_ext.errors import OptionError
from dynamo_ext.formatting import clip, count, printable, seconds
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.widgets import drawn
from dynamo_ext.widgets.comparison.summary import counted, interval, ratio, verdict
from dynamo_ext.widgets.drawn import label
from dynamo_ext.widgets.html.markup import Markup, element, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTHING = "There is nothing to draw: no candidate was timed."
_HEADS = {
    "Speedup": "Speedup over the baseline, with its interval",
    "Samples": "Time of a call: all rounds, the line is the median",
}
KINDS = tuple(_HEADS)
_WIDTH, _ROW, _FRAME = 6.6, 0.34, 0.75
"""Inches: of a chart, the height of a row, and what is around rows."""

# Three to one or better against white and against black; the marker's shape and the words beside
# it say the same.
_LOOKS = {
    "faster": ("#2e9e5b", ">"),
    "slower": ("#c4602a", "<"),
    "same": ("#80868b", "s"),
    "unclear": ("#80868b", "|"),
    "baseline": ("#4285f4", "D"),
    "eager": ("#80868b", "o"),
    "wrong": ("#d93025", "x"),
}
_NAME = 28
_BINS = 60
_SAME = 1.02
_NARROW, _WIDE = 3, 20


class Chart:
    """A chart of ``kind`` (one of ``KINDS``) as SVG and PNG, with the words that stand for it.

    ``rows`` are the candidates to draw, the first one on top.
    """

    def __init__(self, record: Comparison, rows: Sequence[CandidateResult], kind: str) -> None:
        self.record, self.kind = record, kind
        self.rows = [r for r in rows if (counted(record, r) if kind == "Speedup" else r.timing)]

    @property
    def alt(self) -> str:
        """The chart in words."""
        said = "; ".join(self._said(each) for each in self.rows)
        return f"{_HEADS[self.kind]}: {said}."

    def svg(self) -> Markup:
        """The chart for a page that keeps SVG, in the colours of its theme."""
        if problem := self._problem():
            return quiet(problem)
        source = self._saved(drawn.TEXT, drawn.QUIET, format="svg", transparent=True)
        return drawn.themed(source.decode(), self.alt)

    def png(self) -> Markup:
        """The chart as an image of its own, dark on white whatever the theme is."""
        if problem := self._problem():
            return quiet(problem)
        data = self._saved("#1f1f1f", "#5f6368", format="png", dpi=144, facecolor="white")
        source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
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

    def _saved(self, text: str, quiet: str, **how: Any) -> bytes:
        from matplotlib.figure import Figure

        # Another chart on the page must not have the same ids.
        with drawn.drawing(self.alt), io.BytesIO() as out:
            figure = Figure(figsize=self._inches(), layout="constrained")
            self._draw(figure.add_subplot(), text, quiet)
            figure.savefig(out, **how)
            return out.getvalue()

    def _said(self, candidate: CandidateResult) -> str:
        name = printable(candidate.name)
        if self.kind == "Speedup" and candidate.speedup:
            of = f"{ratio(candidate.speedup.ratio)}, interval {interval(candidate.speedup)}"
            return f"{name} {of}, {verdict(self.record, candidate)[2:]}"
        if candidate.timing is None:
            return name
        low, high = candidate.timing.quartiles
        median = seconds(candidate.timing.median)
        return f"{name} {median}, quartiles {seconds(low)} to {seconds(high)}"

    def _inches(self) -> tuple[float, float]:
        room = 1.6 if self.kind == "Samples" else 1.0
        return _WIDTH, _FRAME + _ROW * room * len(self.rows)

    def _draw(self, axes: Axes, text: str, quiet: str) -> None:
        axes.set_xlabel(_HEADS[self.kind], color=quiet, fontsize=9, parse_math=False)
        axes.tick_params(color=quiet, labelcolor=quiet, labelsize=9)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(quiet)
        axes.patch.set_visible(False)
        _dress(axes, [clip(printable(each.name), _NAME) for each in self.rows], text, quiet)
        # Twice and half as fast are as far from 1, and what takes a tenth of the time is seen.
        axes.set_xscale("log")
        if self.kind == "Speedup":
            _speedups(axes, self, text, quiet)
            return
        _samples(axes, self, text)
        from matplotlib.ticker import EngFormatter

        axes.xaxis.set_major_formatter(EngFormatter(unit="s"))


def _look(chart: Chart, candidate: CandidateResult) -> tuple[str, str]:
    return _LOOKS.get(chart.record.verdict(candidate), _LOOKS["eager"])


def _speedups(axes: Axes, chart: Chart, text: str, quiet: str) -> None:
    base = clip(printable(chart.record.baseline), _NAME)
    axes.axvspan(1 / _SAME, _SAME, color=quiet, alpha=0.15, linewidth=0)
    axes.axvline(1, color=text, linewidth=1)
    shown = [(each, each.speedup) for each in chart.rows if each.speedup]
    for row, (each, speedup) in enumerate(shown):
        colour, marker = _look(chart, each)
        axes.plot([speedup.low, speedup.high], [row, row], color=colour, linewidth=2.5)
        axes.plot([speedup.ratio], [row], marker=marker, color=colour, markersize=7)
        words = f"{ratio(speedup.ratio)} {verdict(chart.record, each)[2:]}"
        label(axes, (max(speedup.high, 1.0), row), words, text)
    values = [1.0, *(end for _, speedup in shown for end in (speedup.low, speedup.high))]
    low, high = min(values), max(values)
    reach = max(high / low, 1.2)
    axes.set_xlim(low / reach ** (0.35 if low < 1 else 0.06), high * reach**0.35)
    _ticks(axes, reach)
    note = f"1× is {base}; the band is what counts as the same"
    axes.set_title(note, color=quiet, fontsize=8.5, loc="left", parse_math=False)
    axes.xaxis.set_major_formatter("{x:g}×")


def _samples(axes: Axes, chart: Chart, text: str) -> None:
    import numpy as np

    samples = [np.asarray(each.timing.samples) for each in chart.rows if each.timing]
    low = min(float(each.min()) for each in samples)
    # A few rounds that met another process would squeeze all others into one bin.
    high = max(float(np.quantile(each, 0.98)) for each in samples) * 1.05
    bins = np.geomspace(low, high, _BINS + 1)
    for row, (each, values) in enumerate(zip(chart.rows, samples, strict=True)):
        colour, _ = _look(chart, each)
        heights, _ = np.histogram(values, bins)
        tall = heights / max(int(heights.max()), 1) * 0.8
        axes.stairs(row + 0.4 - tall, bins, baseline=row + 0.4, fill=True, color=colour, alpha=0.45)
        middle = float(np.median(values))
        axes.plot([middle, middle], [row + 0.4, row - 0.45], color=text, linewidth=1.4)
        beyond = int((values > high).sum())
        words = seconds(middle) + (f", {count(beyond, 'slower round')} beyond" if beyond else "")
        label(axes, (middle, row - 0.3), words, text, left=middle > (low * high) ** 0.5)
    axes.set_xlim(low * 0.95, high)
    _ticks(axes, high / low)


def _ticks(axes: Axes, reach: float) -> None:
    """Mark more than powers of ten: most comparisons span less than one."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    subs = (1, 2, 5) if reach > _WIDE else (1, 1.5, 2, 3, 5, 7)
    axes.xaxis.set_major_locator(LogLocator(subs=subs) if reach > _NARROW else MaxNLocator(5))
    axes.xaxis.set_minor_locator(NullLocator())


def _dress(axes: Axes, names: list[str], text: str, quiet: str) -> None:
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelcolor=text, labelsize=10)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=quiet, alpha=0.18, linewidth=0.8)
    axes.set_axisbelow(True)
