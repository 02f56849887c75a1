"""The runs of a session, one a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.formatting import clip
from dynamo_ext.widgets.blocks import Block, Shown, Table
from dynamo_ext.widgets.report import autotuning, summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dynamo_ext.records.report import Report

_COUNTS = ("Graphs", "Breaks", "Recompiles", "Fallbacks", "Compile", "Run")
_HEADERS = ("Cell", "Backend", "Outcome", *_COUNTS)
_NUMBERS = set(range(3, len(_HEADERS)))


class History(Shown):
    """Runs as a table, the newest last."""

    def __init__(self, reports: Sequence[Report]) -> None:
        self.reports = tuple(reports)

    def blocks(self) -> Iterator[Block]:
        """The table, and how often each backend won."""
        yield Table("Runs", _HEADERS, self._rows(), _NUMBERS)
        yield autotuning.over(self.reports) if self.reports else "No %%dynamo cell has run yet."

    def _rows(self) -> list[list[str]]:
        return [
            [
                clip(each.title, 40),
                clip(f"{each.mode} {each.backend}".strip(), 40),
                summary.status(each)[1],
                *(counts[name] for name in _COUNTS),
            ]
            for each, counts in ((each, dict(summary.counts(each))) for each in self.reports)
        ]
