"""One part of a report by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.widgets import breaks, fallbacks, graph, guards
from dynamo_ext.widgets.markup import Html, element
from dynamo_ext.widgets.style import STYLE

if TYPE_CHECKING:
    from dynamo_ext.records import Report

_PARTS = {
    "graphs": (graph.html, graph.text, graph.NOTHING),
    "guards": (guards.html, guards.text, guards.NOTHING),
    "breaks": (breaks.html, breaks.text, "No graph break: each function was captured to its end."),
    "fallbacks": (fallbacks.html, fallbacks.text, fallbacks.NOTHING),
}
NAMES = tuple(_PARTS)


class ReportPart:
    """The graphs, guards, breaks or fallbacks of a report.

    Parameters
    ----------
    report
        Whose.
    name
        One of ``NAMES``.
    """

    def __init__(self, report: Report, name: str) -> None:
        self.report = report
        self._html, self._text, self._nothing = _PARTS[name]

    def html(self) -> Html:
        """Render it; a sentence where there is nothing."""
        body = self._html(self.report) or element("p", self._nothing, class_="dx-quiet")
        lead = element("div", self.report.title, class_="dx-quiet")
        return element("div", STYLE, lead, body, class_="dx")

    def text(self) -> str:
        """Render the same for a terminal."""
        return f"{self.report.title}\n\n{self._text(self.report) or self._nothing}"

    def _repr_html_(self) -> str:
        return str(self.html())

    def __repr__(self) -> str:
        return self.text()
