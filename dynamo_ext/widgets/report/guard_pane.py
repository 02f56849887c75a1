"""The guards in a notebook, with a search."""

from dynamo_ext.analysis.guard_groups import grouped, total
from dynamo_ext.formatting import count
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.html.markup import quiet
from dynamo_ext.widgets.live import control, framed, ipywidgets, row
from dynamo_ext.widgets.report import guards

_ROWS = 1000  # of all tables


class GuardPane:
    """Those that failed, then all that the search names, by the module that they are about."""

    def __init__(self, report: Report) -> None:
        widgets = ipywidgets()
        self._report = report
        self.find = control(
            "Text",
            "Find",
            "320px",
            placeholder="module, name or condition",
            continuous_update=False,
        )
        self.find.observe(self._draw, "value")
        self.body = widgets.HTML()
        top = widgets.HTML(framed(guards.failures(report)))
        self.widget = widgets.VBox([top, row(self.find), self.body])
        self._draw()

    def _draw(self, _change: object = None) -> None:
        find = self.find.value.strip()
        found = grouped(self._report, find)
        hits = sum(map(total, found.values()))
        said = f"{count(hits, 'match', 'matches')} of {len(self._report.guards):,}." if find else ""
        self.body.value = framed(quiet(said), guards.listed(found, _ROWS, opened=bool(find)))
