"""The widget's panes, each built when its tab is first opened."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dynamo_ext.advice import advise
from dynamo_ext.placement import place_graph, sets_mode
from dynamo_ext.widgets import (
    bytecode,
    code,
    fallbacks,
    graph,
    guards,
    markup,
    steps,
    summary,
    timing,
)
from dynamo_ext.widgets.drawing import MOST, colours, draw, matches, select
from dynamo_ext.widgets.markup import EMPTY, Html, element
from dynamo_ext.wording import clip, count

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from ipywidgets import Widget

    from dynamo_ext.records import Report

TITLES = (
    summary.TITLE,
    code.TITLE,
    graph.TITLE,
    guards.TITLE,
    fallbacks.TITLE,
    bytecode.TITLE,
    timing.TITLE,
)
_VIEWS = ("Drawing", "Table", "Source")
_ZOOMS = (25, 50, 75, 100, 150)  # percent


def ipywidgets() -> ModuleType:
    """Import ipywidgets on first use: a session that never shows a widget does not pay for it."""
    return importlib.import_module("ipywidgets")


def framed(body: Html) -> Html:
    """``body`` under the class that the style sheet keys on."""
    return element("div", body, class_="dx")


def build(title: str, report: Report, show: Callable[[str], None]) -> Widget:
    """Build the widget of the pane with this title; ``show`` opens another pane."""
    if title == graph.TITLE and report.graphs:
        return GraphPane(report).widget
    if title == summary.TITLE:
        return _summary(report, show)
    bodies = {
        code.TITLE: lambda: code.html(report) or _nothing(code.NOTHING),
        graph.TITLE: lambda: _nothing(graph.NOTHING),
        guards.TITLE: lambda: guards.html(report) or _nothing(guards.NOTHING),
        fallbacks.TITLE: lambda: fallbacks.html(report) or _nothing(fallbacks.NOTHING),
        bytecode.TITLE: lambda: bytecode.html(report, None) or _nothing(bytecode.NOTHING),
        timing.TITLE: lambda: timing.html(report),
    }
    return ipywidgets().HTML(framed(bodies[title]()))


def _summary(report: Report, show: Callable[[str], None]) -> Widget:
    """The summary, with a button for each part that its steps point to."""
    widgets = ipywidgets()
    body = widgets.HTML(framed(summary.html(report)))
    buttons = []
    for part in steps.parts(advise(report)):
        button = widgets.Button(
            description=f"Open {part}",
            tooltip=f"Show the part of the report called {part}",
            layout=widgets.Layout(width="auto"),
        )
        button.on_click(lambda _, part=part: show(part))
        buttons.append(button)
    row = widgets.Layout(flex_flow="row wrap", grid_gap="4px 8px")
    return widgets.VBox([body, widgets.HBox(buttons, layout=row)]) if buttons else body


class GraphPane:
    """The list of graphs and one of them: drawing, table or source, with a search.

    Parameters
    ----------
    report
        A report with one graph or more.
    """

    def __init__(self, report: Report) -> None:
        widgets = ipywidgets()
        self._report = report
        close = {"description_width": "initial"}
        wide = widgets.Layout(width="auto", max_width="560px")
        self.choice = widgets.Dropdown(
            options=[
                (clip(f"{each.id} · {graph.describe(report, each)}", 70), index)
                for index, each in enumerate(report.graphs)
            ],
            description="Graph",
            style=close,
            layout=wide,
        )
        self.view = widgets.ToggleButtons(
            options=_VIEWS,
            tooltips=["Boxes and edges", "FX table", "Python source of the graph"],
            style={"button_width": "80px"},
        )
        self.find = widgets.Text(
            description="Find",
            style=close,
            placeholder="operator, name or shape",
            continuous_update=False,
            layout=widgets.Layout(width="240px"),
        )
        self.parameters = widgets.Checkbox(
            description="Show parameters", indent=False, layout=widgets.Layout(width="150px")
        )
        self.zoom = widgets.Dropdown(
            options=[(f"{size} %", size) for size in _ZOOMS],
            value=100,
            description="Zoom",
            style=close,
            layout=widgets.Layout(width="125px"),
        )
        self.body = widgets.HTML()
        for control in (self.choice, self.view, self.find, self.parameters, self.zoom):
            control.observe(self._draw, "value")
        row = widgets.Layout(flex_flow="row wrap", grid_gap="4px 12px", align_items="center")
        asked = [self.view, self.find, self.parameters, self.zoom]
        controls = widgets.HBox(asked, layout=row)
        top = [widgets.HTML(framed(graph.overview(report)))]
        if len(report.graphs) > 1:
            top.append(self.choice)
        self.widget = widgets.VBox([*top, controls, self.body])
        self._draw()

    def _draw(self, _change: object = None) -> None:
        """Show what the controls ask for."""
        chosen = self._report.graphs[self.choice.value]
        self.zoom.disabled = self.view.value != "Drawing"
        head = graph.partitions(self._report, chosen)
        body = graph.source(chosen) if self.view.value == "Source" else self._operations()
        script = graph.download(self._report, chosen)
        self.body.value = framed(markup.join([head, script, body]))

    def _operations(self) -> Html:
        chosen, find = self._report.graphs[self.choice.value], self.find.value
        shown = select(chosen, find, parameters=self.parameters.value)
        hits = {op.name for op in shown if matches(op, find)} if find.strip() else set()
        said = self._said(len(shown), len(hits))
        if self.view.value == "Table":
            return markup.join([said, graph.operations_table(chosen, shown[:MOST])])
        placement = place_graph(self._report, chosen)
        drawn = draw(chosen, placement, shown, hits)
        if not drawn:
            return said
        label = f"Drawing of graph {chosen.id}, scrolls"
        sized = element("div", drawn, style=f"--dx-zoom:{self.zoom.value / 100}")
        canvas = element(
            "div", sized, class_="dx-canvas", tabindex="0", role="region", aria_label=label
        )
        tints = colours(placement.shares)
        key = [
            element("span", engine, class_=f"dx-key {tints[engine]}") for engine in placement.shares
        ]
        computed = [op for op in shown if op.opcode.startswith("call_") and not sets_mode(op)]
        engines = {placement.engine_of(op) for op in computed}
        for found, why in (("", "the record does not tell"), (" + ", "more than one engine")):
            if any(found in engine if found else not engine for engine in engines):
                key.append(element("span", f"no tint: {why}. ", class_="dx-quiet"))
        return markup.join([element("p", markup.join(key), said), canvas])

    def _said(self, shown: int, hits: int) -> Html:
        """How much of the graph is shown."""
        total = len(self._report.graphs[self.choice.value].operations)
        words: list[str] = []
        if self.find.value.strip():
            words.append(f"{count(hits, 'match', 'matches')}, with neighbours")
        if shown > MOST:
            words.append(f"the first {MOST:,} of {shown:,} nodes: use Find for the others")
        elif shown < total and not words:
            words.append(f"{count(total - shown, 'parameter')} folded")
        return element("span", "; ".join(words), class_="dx-quiet") if words else EMPTY


def _nothing(words: str) -> Html:
    return element("p", words, class_="dx-quiet")
