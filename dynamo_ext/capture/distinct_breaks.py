"""Equal graph breaks once, with their count.

Torch tells of one break several times: while it traces the cell (the break is then at a line of
the cell, inside the function that the line calls), and again for the function's own frame, often
without the page in its registry.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dynamo_ext.records import GraphBreak, SourceLine

_Place = tuple[str, str, int]


class DistinctBreaks:
    """The breaks of a run, and which of them each of torch's tellings is."""

    def __init__(self, told: Iterable[GraphBreak]) -> None:
        self._found: dict[_Place, GraphBreak] = {}
        self._same_as: dict[_Place, _Place] = {}
        tellings = list(told)
        # Those at a line of the cell first: the others may be tellings of the same break.
        for one in sorted(tellings, key=lambda b: not (b.line is not None and b.line.in_cell)):
            self._add(one)

    def _add(self, told: GraphBreak) -> None:
        own, inner = _place(told, told.line), _place(told, told.stack[-1] if told.stack else None)
        place = self._same_as.get(own, own)
        known = self._found.get(place)
        if known is None:
            self._found[place] = dataclasses.replace(told, count=1)
        else:
            better = known if known.registry_id or not told.registry_id else told
            line = known.line
            self._found[place] = dataclasses.replace(better, line=line, count=known.count + 1)
        if own == place and told.line is not None and told.line.in_cell:
            self._same_as.setdefault(inner, place)

    @property
    def records(self) -> tuple[GraphBreak, ...]:
        """Each break once."""
        return tuple(self._found.values())

    def index(self, told: GraphBreak | None) -> int | None:
        """The position in ``records`` of a break that torch told of."""
        if told is None:
            return None
        own = _place(told, told.line)
        place = self._same_as.get(own, own)
        return list(self._found).index(place) if place in self._found else None


def _place(told: GraphBreak, line: SourceLine | None) -> _Place:
    return (told.reason, line.file, line.line) if line else (told.reason, "", 0)
