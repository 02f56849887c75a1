"""One part of a report by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.widgets.blocks import Shown
from dynamo_ext.widgets.html.markup import Markup, element, quiet
from dynamo_ext.widgets.html.style import STYLE
from dynamo_ext.widgets.report import breaks, fallbacks, graphs, guards

if TYPE_CHECKING:
    from dynamo_ext.records.report import Report

_PARTS = {
    "graphs": (graphs.html, graphs.text, graphs.NOTHING),
    "guards": (guards.html, guards.text, guards.NOTHING),
    "breaks": (breaks.html, breaks.text, "No graph break: each function was captured to its end."),
    "fallbacks": (fallbacks.html, fallbacks.text, fallbacks.NOTHING),
}
NAMES = tuple(_PARTS)


class ReportPart(Shown):
    """The graphs, guards, breaks or fallbacks of a report; ``name`` is one of ``NAMES``."""

    def __init__(self, report: Report, name: str) -> None:
        self.report = report
        self._html, self._text, self._nothing = _PARTS[name]

    def html(self) -> Markup:
        """Render it; a sentence where there is nothing."""
        body = self._html(self.report) or quiet(self._nothing)
        lead = element("div", self.report.title, class_="dx-quiet")
        return element("div", STYLE, lead, body, class_="dx")

    def text(self) -> str:
        """Render the same for a terminal."""
        return f"{self.report.title}\n\n{self._text(self.report) or self._nothing}"
