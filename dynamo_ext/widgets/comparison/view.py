"""The live view of a comparison: sort, filter, drill down, and use the backend that won."""

from collections.abc import Callable
from typing import Any

from dynamo_ext.formatting import count, printable, sentence
from dynamo_ext.records.comparison import Comparison
from dynamo_ext.widgets import live
from dynamo_ext.widgets.comparison import accuracy, columns, graphs, static
from dynamo_ext.widgets.comparison import table as comparison_table
from dynamo_ext.widgets.comparison.chart import Chart
from dynamo_ext.widgets.comparison.summary import counted, limit
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import STYLE, Markup, element, prose
from dynamo_ext.widgets.live import control, framed, row

TITLES = ("Speed", "Accuracy", "Graphs", "Samples")
_BEST_FIRST = "Best first"


class ComparisonView(live.View):
    """A comparison as widgets; ``widget`` is their container.

    ``use`` makes a candidate, by its name, the session's backend, and returns a sentence; without
    it ``choice``, ``button`` and ``said`` are ``None``.
    """

    def __init__(self, record: Comparison, use: Callable[[str], str] | None = None) -> None:
        widgets = live.ipywidgets()
        self._record = record
        self.choice: Any = None
        self.button: Any = None
        self.said: Any = None
        self._stale: set[int] = set()
        self._controls()
        self.panes = {name: widgets.HTML() for name in TITLES}
        children = {name: [self.panes[name]] for name in TITLES}
        children["Speed"].insert(0, row(self.sort, self.order, self.columns))
        children["Graphs"].insert(0, self.graph)
        self.tabs = widgets.Tab(
            children=[widgets.VBox(children[name]) for name in TITLES],
            titles=[
                f"{name} ({len(record.graphs):,})" if name == "Graphs" and record.graphs else name
                for name in TITLES
            ],
            selected_index=0,
        )
        head = widgets.HTML(STYLE + framed(static.lead(record)))
        foot = widgets.HTML(framed(static.notes(record)))
        using = self._using(use) if use is not None else []
        self.widget = widgets.VBox([head, *using, row(self.find), self.tabs, foot])
        self.widget.add_class("dx-live")
        self.tabs.observe(self._redraw, "selected_index")
        for each in (self.find, self.columns, self.graph, self.order):
            each.observe(self._change, "value")
        self.sort.observe(self._resort, "value")
        self._change()

    def _controls(self) -> None:
        record = self._record
        self.find = control("Text", "Filter", "260px", placeholder="name, option or verdict")
        sorts = [_BEST_FIRST, *columns.SORTS]
        self.sort = control("Dropdown", "Sort by", "200px", options=sorts)
        self.sort.add_class("dx-sort")
        self.order = control(
            "ToggleButton", "▲ ascending", "116px", tooltip="Reverse the order", disabled=True
        )
        self.order.add_class("dx-order")
        self.columns = control("Dropdown", "Columns", "230px", options=list(columns.GROUPS))
        graphs = [("none", ""), *((g.graph, g.graph) for g in record.graphs)]
        self.graph = control("Dropdown", "Graph in detail", "240px", options=graphs)
        self.graph.layout.display = None if record.graphs else "none"

    def _using(self, use: Callable[[str], str]) -> list[Any]:
        """The control that makes a candidate the session's backend."""
        record = self._record
        usable = [
            each.name
            for each in columns.ordered(record)
            if counted(record, each) or each.name == record.baseline
        ]
        # After an early interrupt there may be the baseline alone, which is in use already.
        if set(usable) <= {record.baseline}:
            return []
        best = record.best.name if record.best else record.baseline
        options = [(printable(name), name) for name in usable]
        value = best if best in usable else usable[0]
        self.choice = control("Dropdown", "Backend", "260px", options=options, value=value)
        self.button = live.ipywidgets().Button(
            description="Use this backend",
            tooltip="Makes it the default of the cells to come",
            button_style="primary",
        )
        self.said = live.ipywidgets().HTML()
        self.button.on_click(lambda _button: self._press(use))
        return [row(self.choice, self.button, self.said)]

    def _press(self, use: Callable[[str], str]) -> None:
        with live.lock:
            name = self.choice.value
            try:
                shown = markup.join(["✓ ", prose(sentence(printable(use(name))))])
            except Exception as error:  # noqa: BLE001 - a callback's traceback would be lost
                why = sentence(f"{type(error).__name__}: {printable(str(error))}")
                shown = markup.join([f"✗ {printable(name)} was not set. ", why])
            self.said.value = framed(element("span", shown, role="status"))

    def _resort(self, change: dict[str, Any]) -> None:
        """A column starts with its best value on top."""
        with live.lock:
            self.order.disabled = change["new"] == _BEST_FIRST
            best = change["new"] != _BEST_FIRST and columns.BY_TITLE[change["new"]].falling
            if self.order.value == best:
                self._change()
            self.order.value = best

    def _change(self, _change: object = None) -> None:
        """A control was moved: every pane is out of date, and the open one is drawn."""
        with live.lock:
            self.order.description = "▼ descending" if self.order.value else "▲ ascending"
            self._stale = set(range(len(TITLES)))
            self._redraw()

    def _redraw(self, _change: object = None) -> None:
        with live.lock:
            index = self.tabs.selected_index
            if index is None or index not in self._stale:
                return
            self._stale.discard(index)
            name = TITLES[index]
            try:
                body = self._body(name)
            except Exception as error:  # noqa: BLE001 - a callback's traceback would be lost
                body = element("p", f"✗ {type(error).__name__}: {error}")
            self.panes[name].value = framed(body)

    def _body(self, name: str) -> Markup:
        record = self._record
        by = "" if self.sort.value == _BEST_FIRST else self.sort.value
        rows = columns.ordered(record, by, reverse=self.order.value, find=self.find.value)
        if not rows:
            return markup.quiet("No candidate matches the filter.")
        if name == "Accuracy":
            return accuracy.html(rows) or markup.quiet(accuracy.NOTHING)
        if name == "Graphs":
            return self._graphs([each.name for each in rows])
        if name == "Samples":
            return Chart(record, rows, "Samples").svg()
        reverse = self.order.value
        table = comparison_table.html(
            record, rows, self.columns.value, by=by, reverse=reverse, click=self._click
        )
        hidden = len(record.candidates) - len(rows)
        left = markup.quiet(f"{count(hidden, 'candidate')} filtered out.") if hidden else ""
        chart = Chart(record, rows, "Speedup").svg()
        return markup.join([table, left, chart, markup.quiet(limit(record))])

    def _graphs(self, names: list[str]) -> Markup:
        record = self._record
        if not record.graphs:
            return markup.quiet(graphs.NOTHING)
        detail = [
            markup.join([element("h4", f"Graph {g.graph}"), graphs.graph(g, None)])
            for g in record.graphs
            if g.graph == self.graph.value
        ]
        matrix = graphs.matrix(record, [*names, record.baseline, "eager"])
        return markup.join([graphs.mix(record), *detail, matrix])

    def _click(self, title: str) -> str:
        """What a click on a header does: it moves the control, which asks the kernel."""
        view = "const v = this.closest('.dx-live'); "
        if title == self.sort.value:
            return view + "v.querySelector('.dx-order').click();"
        index = self.sort.options.index(title)
        return (
            f"{view}const s = v.querySelector('.dx-sort select'); s.selectedIndex = {index}; "
            "s.dispatchEvent(new Event('change', {bubbles: true}));"
        )


def display_comparison(record: Comparison, use: Callable[[str], str] | None = None) -> None:
    """Show a comparison: static html and the live view, or text; ``use`` as in the view."""
    live.show(
        lambda: static.text(record),
        lambda: {"text/html": str(static.html(record)), "text/plain": static.text(record)},
        lambda: ComparisonView(record, use),
    )
