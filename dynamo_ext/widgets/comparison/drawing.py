"""Speedups, times, samples and memory of candidates, drawn on matplotlib axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynamo_ext.formatting import clip, count, printable, seconds
from dynamo_ext.records.comparison import CandidateResult
from dynamo_ext.widgets.comparison.number_text import size
from dynamo_ext.widgets.comparison.summary import ratio, verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dynamo_ext.widgets.comparison.chart import Chart

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
_WIDE = 20


def _look(chart: Chart, each: CandidateResult) -> tuple[str, str]:
    return _LOOKS.get(chart.record.verdict(each), _LOOKS["eager"])


def _speedups(axes: Axes, chart: Chart, text: str, quiet: str) -> None:
    base = clip(printable(chart.record.baseline), _NAME)
    axes.axvspan(1 / _SAME, _SAME, color=quiet, alpha=0.15, linewidth=0)
    axes.axvline(1, color=text, linewidth=1)
    for row, each in enumerate(chart.rows):
        if each.speedup is None:
            continue
        colour, marker = _look(chart, each)
        axes.plot([each.speedup.low, each.speedup.high], [row, row], color=colour, linewidth=2.5)
        axes.plot([each.speedup.ratio], [row], marker=marker, color=colour, markersize=7)
        words = f"{ratio(each.speedup.ratio)} {verdict(chart.record, each)[2:]}"
        label(axes, (max(each.speedup.high, 1.0), row), words, text)
    low = min(1.0, *(e.speedup.low for e in chart.rows if e.speedup))
    high = max(1.0, *(e.speedup.high for e in chart.rows if e.speedup))
    _limits(axes, low, high, log=chart.log)
    note = f"1× is {base}; the band is what counts as the same"
    axes.set_title(note, color=quiet, fontsize=8.5, loc="left", parse_math=False)


def _times(axes: Axes, chart: Chart, text: str, _quiet: str) -> None:
    shown = [(each, each.timing) for each in chart.rows if each.timing]
    for row, (each, timing) in enumerate(shown):
        colour, marker = _look(chart, each)
        axes.plot(timing.quartiles, [row, row], color=colour, linewidth=2.5)
        axes.plot([timing.median], [row], marker=marker, color=colour, markersize=7)
        words = f"{seconds(timing.median)} {verdict(chart.record, each)[2:]}"
        label(axes, (timing.quartiles[1], row), words, text)
    values = [value for _, timing in shown for value in (*timing.quartiles, timing.median)]
    _limits(axes, min(values), max(values), log=chart.log)


def _samples(axes: Axes, chart: Chart, text: str, _quiet: str) -> None:
    import numpy as np

    samples = [np.asarray(each.timing.samples) for each in chart.rows if each.timing]
    low = min(float(each.min()) for each in samples)
    # A few rounds that met another process would squeeze all others into one bin.
    high = max(float(np.quantile(each, 0.98)) for each in samples) * 1.05
    bins = np.geomspace(low, high, _BINS + 1) if chart.log else np.linspace(0, high, _BINS + 1)
    for row, (each, values) in enumerate(zip(chart.rows, samples, strict=True)):
        colour, _ = _look(chart, each)
        heights, _ = np.histogram(values, bins)
        tall = heights / max(int(heights.max()), 1) * 0.8
        axes.stairs(row + 0.4 - tall, bins, baseline=row + 0.4, fill=True, color=colour, alpha=0.45)
        middle = float(np.median(values))
        axes.plot([middle, middle], [row + 0.4, row - 0.45], color=text, linewidth=1.4)
        beyond = int((values > high).sum())
        words = seconds(middle) + (f", {count(beyond, 'slower round')} beyond" if beyond else "")
        far = middle > (low * high) ** 0.5 if chart.log else middle > high / 2
        label(axes, (middle, row - 0.3), words, text, left=far)
    axes.set_xlim(low * 0.95 if chart.log else 0, high)
    if chart.log:
        _log_ticks(axes, high / low)


def _peaks(axes: Axes, chart: Chart, text: str, _quiet: str) -> None:
    for row, each in enumerate(chart.rows):
        peak = each.peak_bytes or 0
        axes.barh([row], [peak], height=0.5, color=_look(chart, each)[0])
        label(axes, (peak, row), size(peak), text)


def draw(axes: Axes, chart: Chart, text: str, quiet: str) -> None:
    """Draw a row for each candidate of a chart, in the colours of its text and its notes."""
    _dress(axes, [clip(printable(each.name), _NAME) for each in chart.rows], text, quiet)
    if chart.log:
        axes.set_xscale("log")
    _DRAWN[chart.kind](axes, chart, text, quiet)


_DRAWN: dict[str, Callable[[Axes, Chart, str, str], None]] = {
    "Speedup": _speedups,
    "Time": _times,
    "Samples": _samples,
    "Memory": _peaks,
}


def label(
    axes: Axes,
    place: tuple[float, float],
    words: str,
    colour: str,
    *,
    left: bool = False,
    **more: Any,
) -> None:
    """Write words beside a place; ``more`` is matplotlib's."""
    side: dict[str, Any] = {"xytext": (-8 if left else 8, 0), "ha": "right" if left else "left"}
    look = side | {"va": "center", "fontsize": 9, "annotation_clip": False} | more
    axes.annotate(words, place, textcoords="offset points", color=colour, parse_math=False, **look)


def _limits(axes: Axes, low: float, high: float, *, log: bool) -> None:
    if log:
        reach = max(high / low, 1.2)
        axes.set_xlim(low / reach ** (0.35 if low < 1 else 0.06), high * reach**0.35)
        _log_ticks(axes, reach)
    else:
        reach = max(high - low, 0.05 * high)
        axes.set_xlim(max(low - 0.35 * reach, 0), high + 0.35 * reach)


def _log_ticks(axes: Axes, reach: float) -> None:
    """Mark more than powers of ten: most comparisons span less than one."""
    from matplotlib.ticker import LogLocator, NullLocator

    subs = (1, 2, 5) if reach > _WIDE else (1, 1.5, 2, 3, 5, 7)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_minor_locator(NullLocator())


def _dress(axes: Axes, names: list[str], text: str, quiet: str) -> None:
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelcolor=text, labelsize=10)
    axes.tick_params(axis="x", color=quiet, labelcolor=quiet, labelsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(quiet)
    axes.patch.set_visible(False)
    axes.grid(axis="x", color=quiet, alpha=0.18, linewidth=0.8)
    axes.set_axisbelow(True)
