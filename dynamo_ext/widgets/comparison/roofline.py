"""What each candidate reaches under the machine's limits, as a roofline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.widgets import roofline
from dynamo_ext.widgets.comparison.limits import ran_in, share_of_limit
from dynamo_ext.widgets.roofline import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def compared(record: Comparison, rows: Sequence[CandidateResult]) -> list[CandidateResult]:
    """The rows that were timed, in a precision of which the machine's limit is known."""
    return [each for each in rows if _point(record, each)]


def said(record: Comparison, each: CandidateResult) -> str:
    """A candidate's point in words."""
    point = _point(record, each)
    return point.said if point else ""


def draw(
    axes: Axes, record: Comparison, rows: Sequence[CandidateResult], text: str, quiet: str
) -> None:
    """Draw compared rows as points with their names, under the roof of each of their precisions."""
    points = [point for each in rows if (point := _point(record, each))]
    if record.machine is not None:
        roofline.draw(axes, record.machine, points, text, quiet)


def _point(record: Comparison, each: CandidateResult) -> Point | None:
    work, share = record.work, share_of_limit(record, each)
    if work is None or each.timing is None or not (work.operations and share):
        return None
    return Point(each.name, work, ran_in(record, each), each.timing.median, share)
