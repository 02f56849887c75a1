"""A report in a notebook: the widget, the static form under it, and which of them is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.widgets import live
from dynamo_ext.widgets.html.markup import element
from dynamo_ext.widgets.html.style import STYLE
from dynamo_ext.widgets.report import panes, static

if TYPE_CHECKING:
    from dynamo_ext.records.report import Report


class ReportView(live.View):
    """The interactive view of a report: one tab a part, built when it is opened.

    Parameters
    ----------
    report
        What to show.

    Attributes
    ----------
    widget
        The ipywidgets container, to be displayed or put into a layout.
    tabs
        Its tabs, in the order of ``dynamo_ext.widgets.report.panes.TITLES``.
    """

    def __init__(self, report: Report) -> None:
        widgets = live.ipywidgets()
        self._report = report
        self._built: set[int] = set()
        counted = {"Graphs": report.graphs, "Guards": report.guards, "Fallbacks": report.fallbacks}
        # What a front end shows that has the saved state of the view but no kernel.
        waiting = "<p>This part is drawn by the kernel: run the cell again to see it.</p>"
        self.tabs = widgets.Tab(
            children=[widgets.VBox([widgets.HTML(waiting)]) for _ in panes.TITLES],
            titles=[
                f"{name} ({len(counted[name]):,})" if name in counted else name
                for name in panes.TITLES
            ],
            selected_index=0,
        )
        lead = element("div", static.title(report), class_="dx-quiet")
        head = widgets.HTML(STYLE + live.framed(lead))
        self.widget = widgets.VBox([head, self.tabs])
        self.widget.add_class("dx-live")
        self.tabs.observe(self._select, "selected_index")
        self._build(0)

    def _select(self, change: dict[str, Any]) -> None:
        if change["new"] is not None:
            self._build(change["new"])

    def _show(self, title: str) -> None:
        self.tabs.selected_index = panes.TITLES.index(title)

    def _build(self, index: int) -> None:
        """Build a pane the first time that its tab is opened."""
        with live.lock:
            if index in self._built:
                return
            self._built.add(index)
            waiting = self.tabs.children[index].children
            pane = panes.build(panes.TITLES[index], self._report, self._show)
            self.tabs.children[index].children = (pane,)
            for widget in waiting:
                widget.close()


def report_mimebundle(report: Report) -> dict[str, str]:
    """Make the static forms of a report, by mime type: ``text/html`` and ``text/plain``."""
    return {"text/html": str(static.html(report)), "text/plain": static.text(report)}


def display_report(report: Report, *, widget: bool = True) -> None:
    """Show a report wherever this runs.

    In a notebook this emits two outputs, the static form and then the widget alone; a style rule
    hides the static form while the widget lives, and the widget's error once it does not. In a
    terminal it prints the text.

    Parameters
    ----------
    report
        What to show.
    widget
        Whether to show the widget where there is one.
    """
    live.show(
        lambda: static.text(report),
        lambda: report_mimebundle(report),
        (lambda: ReportView(report)) if widget else None,
    )
