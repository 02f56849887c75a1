"""Where a run's time went, as a matplotlib plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.formatting import seconds
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.comparison.chart import new_axes
from dynamo_ext.widgets.report import timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(report: Report, axes: Axes | None) -> Axes:
    """Draw a bar for each part of the run on ``axes``, or in a new figure of pyplot's.

    Raises ``OptionError`` where matplotlib is not installed.
    """
    names, spent = zip(*timing.parts(report), strict=True)
    axes = axes or new_axes(6.6, 0.75 + 0.34 * len(names))
    bars = axes.barh(names, spent, height=0.6)
    axes.bar_label(bars, [seconds(each) for each in spent], padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlabel(f"Seconds of {report.title} on {report.backend}", parse_math=False)
    return axes
