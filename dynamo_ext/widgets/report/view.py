"""A report in a notebook: the widget, the static form under it, and which of them is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.analysis.advice import advise
from dynamo_ext.analysis.guards import grouped, total
from dynamo_ext.analysis.placement import place_graph, sets_mode
from dynamo_ext.formatting import clip, count
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import blocks, live
from dynamo_ext.widgets.graph_drawing.folds import fold, modules_of
from dynamo_ext.widgets.graph_drawing.svg import MAX_NODES, canvas, colours, draw, matches, select
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, STYLE, Markup, element, quiet_words
from dynamo_ext.widgets.live import control, framed, ipywidgets, row
from dynamo_ext.widgets.report import graphs, guards, modules, static, summary

if TYPE_CHECKING:
    from ipywidgets import Widget

TITLES = (summary.TITLE, *(part.TITLE for part in static.PARTS))
_VIEWS = ("Drawing", "Modules", "Table", "Source")
_GUARDS = 1000  # rows of all tables
_ROWS = 300  # of a table of operations; a browser takes more than a second for 1,500


class ReportView(live.View):
    """The interactive view of a report: one tab a part, built when it is opened.

    ``widget`` is the container, to be displayed or put into a layout; ``tabs`` are its tabs, in the
    order of ``TITLES``.
    """

    def __init__(self, report: Report) -> None:
        widgets = ipywidgets()
        self._report = report
        self._built: set[int] = set()
        counted = {"Graphs": report.graphs, "Guards": report.guards, "Fallbacks": report.fallbacks}
        # Each widget is a message of its own, and so is each layout that is not shared.
        layout = widgets.Layout()
        # What a front end shows that has the saved state of the view but no kernel.
        waiting = widgets.HTML(
            "<p>This part is drawn by the kernel: run the cell again to see it.</p>", layout=layout
        )
        self.tabs = widgets.Tab(
            children=[widgets.VBox([waiting], layout=layout) for _ in TITLES],
            layout=layout,
            titles=[
                f"{name} ({len(counted[name]):,})" if name in counted else name for name in TITLES
            ],
            selected_index=0,
        )
        lead = element("div", static.title(report), class_="dx-quiet")
        head = widgets.HTML(STYLE + framed(lead), layout=layout, style=waiting.style)
        self.widget = widgets.VBox([head, self.tabs], layout=layout, _dom_classes=["dx-live"])
        self.tabs.observe(self._build, "selected_index")
        self._build()

    def _build(self, _change: object = None) -> None:
        """Build the pane whose tab is opened for the first time."""
        with live.lock:
            index = self.tabs.selected_index
            if index is None or index in self._built:
                return
            self._built.add(index)
            self.tabs.children[index].children = (self._pane(TITLES[index]),)

    def _pane(self, title: str) -> Widget:
        report = self._report
        if title == summary.TITLE:
            return self._summary()
        if title == graphs.TITLE and report.graphs:
            return GraphPane(report).widget
        if title == guards.TITLE and report.guards:
            return GuardPane(report).widget
        part = next(part for part in static.PARTS if title == part.TITLE)
        body = part.html(report, None)
        return ipywidgets().HTML(framed(body or markup.quiet(part.NOTHING)))

    def _summary(self) -> Widget:
        widgets = ipywidgets()
        body = widgets.HTML(framed(summary.html(self._report)), layout=self.tabs.layout)
        auto, buttons = widgets.Layout(width="auto"), []
        for part in dict.fromkeys(step.part for step in advise(self._report)):
            words = f"Show the part of the report called {part}"
            button = widgets.Button(description=f"Open {part}", tooltip=words, layout=auto)
            button.on_click(lambda _, part=part: self._open(part))
            buttons.append(button)
        return widgets.VBox([body, row(*buttons)]) if buttons else body

    def _open(self, title: str) -> None:
        self.tabs.selected_index = TITLES.index(title)


class GraphPane:
    """The graphs, one or more, and one of them: drawing, table or source, with a search."""

    def __init__(self, report: Report) -> None:
        widgets = ipywidgets()
        self._report = report
        names = [
            " · ".join(filter(None, [g.id, modules_of(g.operations), graphs.describe(report, g)]))
            for g in report.graphs
        ]
        self.choice = control(
            "Dropdown", "Graph", options=[(clip(name, 70), i) for i, name in enumerate(names)]
        )
        self.choice.layout = widgets.Layout(width="auto", max_width="560px")
        self.view = widgets.ToggleButtons(
            options=_VIEWS,
            tooltips=[
                "Boxes and edges",
                "Where its time or its operations are",
                "FX table",
                "Python source of the graph",
            ],
            style={"button_width": "80px"},
        )
        hint = "module, operator, name or shape"
        self.find = control("Text", "Find", "290px", placeholder=hint, continuous_update=False)
        self.parameters = control("Checkbox", "Show parameters", "150px", indent=False)
        self.folded = control("Checkbox", "Fold modules", "130px", indent=False, value=True)
        # What only another graph changes is not sent again: the script can be a megabyte.
        self.head, self.body = widgets.HTML(), widgets.HTML()
        controls = [self.view, self.find, self.parameters, self.folded]
        for each in controls:
            each.observe(self._draw, "value")
        self.choice.observe(self._choose, "value")
        top = [widgets.HTML(framed(blocks.html([graphs.overview(report)])))]
        if len(report.graphs) > 1:
            top.append(self.choice)
        self.widget = widgets.VBox([*top, row(*controls), self.head, self.body])
        self._choose()

    def _choose(self, _change: object = None) -> None:
        chosen = self._report.graphs[self.choice.value]
        head = graphs.partitions(self._report, chosen)
        self.head.value = framed(head, graphs.download(self._report, chosen))
        self._draw()

    def _draw(self, _change: object = None) -> None:
        self.folded.disabled = self.view.value != "Drawing"
        source = self._report.graphs[self.choice.value].source
        is_source = self.view.value == "Source"
        body = markup.listing(source, None, "") if is_source else self._operations()
        self.body.value = framed(body)

    def _operations(self) -> Markup:
        chosen, find = self._report.graphs[self.choice.value], self.find.value
        shown = select(chosen, find, parameters=self.parameters.value)
        hits = {op.name for op in shown if matches(op, find)} if find.strip() else set()
        placement = place_graph(self._report, chosen)
        drawing = self.view.value == "Drawing"
        whole = find.strip() or not drawing or not self.folded.value
        boxes = shown if whole else fold(shown, placement)
        if self.view.value == "Modules":
            found = [op for op in shown if op.name in hits] if find.strip() else shown
            made = modules.html(self._report, chosen, found, opened=bool(find.strip()))
            return made or markup.quiet(modules.NOTHING if found else "0 matches")
        most = MAX_NODES if drawing else _ROWS
        said = self._said(len(shown), len(boxes), len(hits), most)
        if not drawing:
            return markup.join([said, graphs.operations_table(chosen, shown[:most])])
        drawn = draw(chosen, placement, boxes, hits)
        if not drawn:
            return said
        tints = colours(placement.shares)
        key = [element("span", each, class_=f"dx-key {tints[each]}") for each in placement.shares]
        engines = {placement.engine_of(op) for op in shown if op.computes and not sets_mode(op)}
        if "" in engines:
            key.append(quiet_words("no tint: the record does not tell. "))
        if any(" + " in engine for engine in engines):
            key.append(quiet_words("no tint: more than one engine. "))
        window = canvas(drawn, f"Drawing of graph {chosen.id}, scrolls")
        return markup.join([element("p", markup.join(key), said), window])

    def _said(self, shown: int, boxes: int, hits: int, most: int) -> Markup:
        total = len(self._report.graphs[self.choice.value].operations)
        words: list[str] = []
        if self.find.value.strip():
            words.append(f"{count(hits, 'match', 'matches')}, with neighbours")
        if boxes > most:
            words.append(f"the first {most:,} of {boxes:,} nodes: use Find for the others")
        elif boxes < shown:
            words.append(
                f"{shown:,} nodes in {count(boxes, 'box', 'boxes')}: a click on ▸ opens one"
            )
        if shown < total and not self.find.value.strip():
            words.append(f"{count(total - shown, 'parameter')} folded")
        return quiet_words("; ".join(words)) if words else EMPTY


class GuardPane:
    """Those that failed, then all that the search names, by the module that they are about."""

    def __init__(self, report: Report) -> None:
        widgets = ipywidgets()
        self._report = report
        hint = "module, name or condition"
        self.find = control("Text", "Find", "320px", placeholder=hint, continuous_update=False)
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
        listed = guards.listed(found, _GUARDS, opened=bool(find))
        self.body.value = framed(markup.quiet(said), listed)


def report_mimebundle(report: Report) -> dict[str, str]:
    """Make the static forms of a report, by mime type: ``text/html`` and ``text/plain``.

    A notebook keeps both in its file: long lists are cut, with a count of what is left out.
    """
    return {"text/html": str(static.html(report)), "text/plain": static.brief(report)}


def display_report(report: Report, *, brief: bool = False) -> None:
    """Show a report: as text in a terminal, as static html and a widget in a notebook.

    The text is a screen's where it is to be ``brief``.
    """
    live.show(
        lambda: static.brief(report) if brief else static.text(report),
        lambda: report_mimebundle(report),
        lambda: ReportView(report),
    )
