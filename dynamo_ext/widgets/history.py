"""The runs of a session, one a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.widgets import contests, markup, plain, summary
from dynamo_ext.widgets.markup import Html, element
from dynamo_ext.widgets.style import STYLE
from dynamo_ext.wording import clip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamo_ext.records import Report

_COUNTS = ("Graphs", "Breaks", "Recompiles", "Fallbacks", "Compile", "Run")
_HEADERS = ("Cell", "Backend", "Outcome", *_COUNTS)
_NUMBERS = set(range(3, len(_HEADERS)))
_NOTHING = "No %%dynamo cell has run yet."


class History:
    """Runs as a table, the newest last.

    Parameters
    ----------
    reports
        Their records, oldest first.
    """

    def __init__(self, reports: Sequence[Report]) -> None:
        self.reports = tuple(reports)

    def html(self) -> Html:
        """Render the table."""
        if not self.reports:
            return element("div", element("p", _NOTHING), class_="dx")
        table = markup.table("Runs", _HEADERS, self._rows(), numeric=_NUMBERS)
        said = contests.over(self.reports)
        return element("div", STYLE, table, *([element("p", said)] if said else []), class_="dx")

    def text(self) -> str:
        """Render the same for a terminal."""
        if not self.reports:
            return _NOTHING
        said = plain.paragraph(contests.over(self.reports))
        return "\n\n".join(filter(None, [plain.table(list(_HEADERS), self._rows()), said]))

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

    def _repr_html_(self) -> str:
        return str(self.html())

    def __repr__(self) -> str:
        return self.text()
