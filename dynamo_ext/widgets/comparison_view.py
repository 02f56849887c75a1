"""The live view of a comparison: sort, filter, drill down, and use the backend that won."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.widgets import (
    comparison,
    comparison_accuracy,
    comparison_columns,
    comparison_graphs,
    comparison_table,
    live,
    markup,
)
from dynamo_ext.widgets.comparison_chart import Chart
from dynamo_ext.widgets.comparison_summary import counted
from dynamo_ext.widgets.markup import Html, element, prose
from dynamo_ext.widgets.panes import framed, ipywidgets
from dynamo_ext.widgets.style import STYLE
from dynamo_ext.wording import count, printable, sentence

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.comparison import Comparison

TITLES = ("Speed", "Accuracy", "Graphs", "Samples")
_BEST_FIRST = "Best first"
_NO_GRAPH = ""


class ComparisonView:
    """A comparison as widgets.

    Parameters
    ----------
    record
        What to show.
    use
        Makes a candidate, by its name, the session's backend, and returns a sentence that says
        so; without one there is no such control.

    Attributes
    ----------
    widget
        The ipywidgets container, to be displayed or put into a layout.
    find, sort, order, columns, chart, log, graph
        The controls: what their ``value`` says is what is shown.
    choice, button, said
        The backend to use, its button and what came of it; ``None`` without ``use``.
    """

    def __init__(self, record: Comparison, use: Callable[[str], str] | None = None) -> None:
        widgets = ipywidgets()
        self._record = record
        self._use = use
        self._stale: set[int] = set()
        self._controls(widgets)
        self.panes = {name: widgets.HTML() for name in TITLES}
        row = widgets.Layout(flex_flow="row wrap", grid_gap="4px 14px", align_items="center")
        speed = widgets.HBox([self.sort, self.order, self.columns, self.chart], layout=row)
        children = {name: [self.panes[name]] for name in TITLES}
        children["Speed"] = [speed, self.panes["Speed"]]
        if record.graphs:
            children["Graphs"] = [self.graph, self.panes["Graphs"]]
        self.tabs = widgets.Tab(
            children=[widgets.VBox(children[name]) for name in TITLES],
            titles=[_title(record, name) for name in TITLES],
            selected_index=0,
        )
        head = widgets.HTML(STYLE + framed(comparison.lead(record)))
        foot = widgets.HTML(framed(comparison.notes(record)))
        common = widgets.HBox([self.find, self.log], layout=row)
        using = self._using(widgets, row)
        self.widget = widgets.VBox([head, *using, common, self.tabs, foot])
        self.widget.add_class("dx-live")
        self.tabs.observe(self._redraw, "selected_index")
        for control in (self.find, self.log, self.columns, self.chart, self.graph, self.order):
            control.observe(self._change, "value")
        self.sort.observe(self._resort, "value")
        self._change()

    def close(self) -> None:
        """Close every widget of the view; a notebook then shows its static form."""
        with live.lock:
            live.close(self.widget)
            # It is in no container where there are no graphs.
            self.graph.close()

    def _repr_mimebundle_(self, **_kwargs: object) -> dict[str, Any]:
        return live.reference(self)

    def _controls(self, widgets: Any) -> None:
        close = {"description_width": "initial"}
        self.find = widgets.Text(
            description="Filter",
            placeholder="name, option or verdict",
            style=close,
            layout=widgets.Layout(width="260px"),
        )
        wide = any(each.speedup for each in self._record.candidates)
        self.log = widgets.Checkbox(
            description="Log scale",
            value=wide and comparison.wide(self._record),
            indent=False,
            layout=widgets.Layout(width="110px"),
        )
        self.sort = widgets.Dropdown(
            description="Sort by",
            options=[_BEST_FIRST, *comparison_columns.SORTS],
            style=close,
            layout=widgets.Layout(width="200px"),
        )
        self.sort.add_class("dx-sort")
        self.order = widgets.ToggleButton(
            description="▲ ascending",
            tooltip="Turn the order round",
            disabled=True,
            layout=widgets.Layout(width="116px"),
        )
        self.order.add_class("dx-order")
        self.columns = widgets.Dropdown(
            description="Columns",
            options=list(comparison_columns.GROUPS),
            style=close,
            layout=widgets.Layout(width="230px"),
        )
        self.chart = widgets.Dropdown(
            description="Chart",
            options=["Speedup", "Time"],
            style=close,
            layout=widgets.Layout(width="150px"),
        )
        self.graph = widgets.Dropdown(
            description="Graph in detail",
            options=[("none", _NO_GRAPH), *((g.graph, g.graph) for g in self._record.graphs)],
            style=close,
            layout=widgets.Layout(width="240px"),
        )

    def _using(self, widgets: Any, row: Any) -> list[Any]:
        """The control that makes a candidate the session's backend."""
        record = self._record
        self.choice = self.button = self.said = None
        usable = [
            each.name
            for each in comparison_columns.ordered(record)
            if counted(record, each) or each.name == record.baseline
        ]
        if self._use is None or not usable:
            return []
        best = record.best.name if record.best else record.baseline
        self.choice = widgets.Dropdown(
            description="Backend",
            options=[(printable(name), name) for name in usable],
            value=best if best in usable else usable[0],
            style={"description_width": "initial"},
            layout=widgets.Layout(width="260px"),
        )
        self.button = widgets.Button(
            description="Use this backend",
            tooltip="Makes it the default of the cells to come",
            button_style="primary",
        )
        self.said = widgets.HTML()
        self.button.on_click(self._press)
        return [widgets.HBox([self.choice, self.button, self.said], layout=row)]

    def _press(self, _button: object) -> None:
        if self._use is None or self.choice is None or self.said is None:
            return
        with live.lock:
            name = self.choice.value
            try:
                words = prose(sentence(printable(self._use(name))))
                shown = markup.join(["✓ ", words])
            except Exception as error:  # noqa: BLE001 - a callback's traceback would be lost
                why = sentence(f"{type(error).__name__}: {printable(str(error))}")
                shown = markup.join([f"✗ {printable(name)} was not set. ", why])
            self.said.value = framed(element("span", shown, role="status"))

    def _resort(self, change: dict[str, Any]) -> None:
        """A column starts with its best value on top."""
        with live.lock:
            self.order.disabled = change["new"] == _BEST_FIRST
            best = change["new"] != _BEST_FIRST and comparison_columns.falls(change["new"])
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

    def _body(self, name: str) -> Html:
        record = self._record
        by = "" if self.sort.value == _BEST_FIRST else self.sort.value
        rows = comparison_columns.ordered(
            record, by, reverse=self.order.value, find=self.find.value
        )
        if not rows:
            return element("p", "No candidate matches the filter.", class_="dx-quiet")
        if name == "Accuracy":
            return comparison_accuracy.html(rows) or _nothing(comparison_accuracy.NOTHING)
        if name == "Graphs":
            return self._graphs([each.name for each in rows])
        if name == "Samples":
            return Chart(record, rows, "Samples", log=self.log.value).svg()
        table = comparison_table.html(
            record,
            rows,
            self.columns.value,
            by=by,
            reverse=self.order.value,
            click=self._click,
        )
        hidden = len(record.candidates) - len(rows)
        left = _nothing(f"{count(hidden, 'candidate')} filtered out.") if hidden else ""
        return markup.join(
            [table, left, Chart(record, rows, self.chart.value, log=self.log.value).svg()]
        )

    def _graphs(self, names: list[str]) -> Html:
        record = self._record
        if not record.graphs:
            return _nothing(comparison_graphs.NOTHING)
        chosen = [g for g in record.graphs if g.graph == self.graph.value]
        detail = [
            markup.join([element("h4", f"Graph {g.graph}"), comparison_graphs.graph(g, None)])
            for g in chosen
        ]
        matrix = comparison_graphs.matrix(record, [*names, record.baseline, "eager"])
        return markup.join([comparison_graphs.mix(record), *detail, matrix])

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


def _title(record: Comparison, name: str) -> str:
    return f"{name} ({len(record.graphs):,})" if name == "Graphs" and record.graphs else name


def _nothing(words: str) -> Html:
    return element("p", words, class_="dx-quiet")
