"""Equal graph breaks once, with their count.

Torch reports one break several times: at a line of the cell while it traces the cell, again for
each function on the way and for the function's own frame, often without its page. A count is of
what one frame reported: more than once where it was compiled again.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable

from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.common import SourceLine

_Place = tuple[str, tuple[str, int], tuple[str, int]]


class DistinctBreaks:
    """The breaks of a run, and which of them each of torch's tellings is."""

    def __init__(self, graph_breaks: Iterable[GraphBreak]) -> None:
        self._found: dict[_Place, GraphBreak] = {}
        self._same_as: dict[_Place, _Place] = {}
        # Those at a line of the cell first: the others may be tellings of the same break.
        frames: Counter[tuple[_Place, tuple[str, int]]] = Counter()
        for one in sorted(graph_breaks, key=lambda b: not (b.line is not None and b.line.in_cell)):
            place = self._place(one)
            frame = place, _at(one.stack[0] if one.stack else one.line)
            frames[frame] += 1
            known = self._found.get(place, one)
            better = known if known.registry_id or not one.registry_id else one
            count = max(known.count, frames[frame])
            self._found[place] = dataclasses.replace(better, line=known.line, count=count)
            if one.line is not None and one.line.in_cell:
                what, _, inner = place
                self._same_as.setdefault((what, inner, inner), place)

    @property
    def records(self) -> tuple[GraphBreak, ...]:
        """Each break once."""
        return tuple(self._found.values())

    def index(self, graph_break: GraphBreak | None) -> int | None:
        """The position in ``records`` of a break that torch reported."""
        if graph_break is None:
            return None
        place = self._place(graph_break)
        return list(self._found).index(place) if place in self._found else None

    def _place(self, graph_break: GraphBreak) -> _Place:
        inner = _at(graph_break.stack[-1] if graph_break.stack else graph_break.line)
        if graph_break.line is not None and graph_break.line.in_cell:
            return (graph_break.what, _at(graph_break.line), inner)
        own = (graph_break.what, inner, inner)
        return self._same_as.get(own, own)


def _at(line: SourceLine | None) -> tuple[str, int]:
    return (line.file, line.line) if line else ("", 0)
