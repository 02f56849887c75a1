from __future__ import annotations

import base64
import dataclasses
import json
import re
import time

import ipywidgets

from dynamo_ext.records.capture import Guard
from dynamo_ext.widgets import ReportView, display_report, live, report_mimebundle
from dynamo_ext.widgets.report import static
from dynamo_ext.widgets.report.view import TITLES, GraphPane, GuardPane

VIEW = "application/vnd.jupyter.widget-view+json"


def pane(view, index):
    """The html of a pane, or of the last part of it."""
    child = view.tabs.children[index].children[0]
    while not isinstance(child, ipywidgets.HTML):
        child = next(c for c in reversed(child.children) if not isinstance(c, ipywidgets.HBox))
    return child.value


def test_every_pane_is_built_once_when_its_tab_is_opened(report, page, monkeypatch):
    built = []
    build = ReportView._pane
    monkeypatch.setattr(
        ReportView, "_pane", lambda view, title: built.append(title) or build(view, title)
    )
    view = ReportView(report)
    assert built == ["Summary"]
    for index in [*range(len(TITLES)), 2, 0]:
        view.tabs.selected_index = index
    assert built == list(TITLES)
    for index in range(len(TITLES)):
        assert page(pane(view, index)).text
    view.close()


def test_a_step_opens_the_part_that_shows_it(reports):
    view = ReportView(reports["mixed"])
    body, row = view.tabs.children[0].children[0].children
    assert isinstance(body, ipywidgets.HTML)
    assert [button.description for button in row.children] == [
        "Open Code",
        "Open Fallbacks",
        "Open Guards",
    ]
    row.children[2].click()
    assert TITLES[view.tabs.selected_index] == "Guards"
    view.close()


def test_a_closed_tab_bar_builds_nothing(reports):
    view = ReportView(reports["clean"])
    view.tabs.selected_index = None
    view.close()


def test_a_view_is_few_messages_until_its_tabs_are_opened(reports, monkeypatch):
    made = []
    monkeypatch.setattr(ipywidgets.Widget, "_widget_construction_callback", made.append)
    view = ReportView(reports["clean"])
    assert len(made) < 25
    view.close()


def test_tabs_count_what_they_hold(reports):
    view = ReportView(reports["mixed"])
    told = "Summary, Code, Graphs (2), Guards (40), Fallbacks (1), Timing"
    assert ", ".join(view.tabs.titles) == told
    assert "dx-live" in view.widget._dom_classes
    view.close()


def test_empty_panes_say_so(reports):
    view = ReportView(reports["nothing"])
    for index, words in [(2, "No graph"), (3, "No guard"), (4, "No fallback")]:
        view.tabs.selected_index = index
        assert words in pane(view, index)
    view.close()


def test_the_graph_pane_follows_its_controls(reports, page):
    graphs = GraphPane(reports["mixed"])
    assert "Drawing of graph g0: 4 nodes" in graphs.body.value
    assert "1 parameter folded" in graphs.body.value
    assert "Fit" in page(graphs.body.value).text
    assert "Download g0.py" in graphs.head.value
    graphs.parameters.value = True
    assert "Drawing of graph g0: 5 nodes" in graphs.body.value
    graphs.choice.value = 1
    assert "Drawing of graph g1" in graphs.body.value
    assert "Download g1.py" in graphs.head.value
    graphs.view.value = "Modules"
    assert "None of these operations is of a module." in graphs.body.value
    graphs.view.value = "Drawing"
    graphs.find.value = "sort"
    assert "1 match, with neighbours" in graphs.body.value
    graphs.view.value = "Table"
    assert "torch.sort" in page(graphs.body.value).text
    assert graphs.folded.disabled
    graphs.find.value = "nowhere"
    graphs.view.value = "Drawing"
    assert "0 matches" in graphs.body.value
    assert "<svg" not in graphs.body.value
    graphs.view.value = "Source"
    assert "def forward(self, x): ..." in graphs.body.value


def test_a_large_graph_is_folded_until_that_is_turned_off(reports, page):
    pane = GraphPane(reports["big"])
    total = len(reports["big"].graphs[0].operations)
    folded = page(pane.body.value).text
    assert re.search(r"[\d,]+ nodes in \d+ boxes: a click on ▸ opens one", folded)
    size = len(pane.body.value)
    pane.folded.value = False
    assert "a click" not in pane.body.value
    assert len(pane.body.value) > 4 * size
    pane.view.value = "Table"
    assert pane.folded.disabled
    assert f"the first 300 of {total:,} nodes: use Find" in page(pane.body.value).text
    assert total > 1000


def test_guards_are_searched(reports, page):
    pane = GuardPane(reports["mixed"])
    assert "model : 36 guards" in page(pane.body.value).text
    pane.find.value = "layers[7]"
    assert "1 match of 40." in page(pane.body.value).text
    assert "model.layers[7].weight must stay a float32 tensor" in page(pane.body.value).text
    pane.find.value = "nowhere"
    assert "0 matches of 40." in page(pane.body.value).text


def test_3000_guards_are_shown_soon_and_counted(reports, page):
    guards = tuple(
        Guard("0/0", "m", f"L['m'].a{index}", "EQUALS_MATCH", subject=f"m.a{index}", expected="1")
        for index in range(3000)
    )
    start = time.process_time()
    pane = GuardPane(dataclasses.replace(reports["clean"], guards=guards))
    assert time.process_time() - start < 3, "0.3 s where it was measured"
    assert "more guards." in page(pane.body.value).text
    pane.find.value = "m.a2999"
    assert "m.a2999 must stay 1." in page(pane.body.value).text


def test_closing_a_view_closes_all_that_it_made(reports, walk):
    view = ReportView(reports["mixed"])
    for index in range(len(TITLES)):
        view.tabs.selected_index = index
    found = list(walk(view.widget))
    view.close()
    assert all(widget.comm is None for widget in found)


def test_two_reports_share_no_id(reports, page):
    made = "".join(report_mimebundle(reports[name])["text/html"] for name in ("mixed", "big"))
    view = ReportView(reports["big"])
    view.tabs.selected_index = 2
    assert not page(made + pane(view, 2)).ids
    view.close()


def test_the_bundle_has_html_and_text_alone(report):
    bundle = report_mimebundle(report)
    assert set(bundle) == {"text/html", "text/plain"}
    assert all(type(value) is str for value in bundle.values())
    json.dumps(bundle)


def test_the_text_in_a_notebook_is_cut_with_a_count(reports):
    report = reports["mixed"]
    many = dataclasses.replace(report, fallbacks=report.fallbacks * 100)
    whole, short = static.text(many), report_mimebundle(many)["text/plain"]
    assert len(short.splitlines()) <= 64 < len(whole.splitlines())
    assert all(f"\n{name}  " in short for name in ("Gain", "Cost", "Next"))
    assert "\n… " in short
    assert "%dynamo report shows all of it." in " ".join(short.split())
    assert report_mimebundle(reports["nothing"])["text/plain"] == static.text(reports["nothing"])


def test_a_notebook_gets_the_static_form_and_then_the_widget_alone(reports, sent):
    display_report(reports["mixed"])
    static, alive = sent
    assert set(static) == {"text/html", "text/plain"}
    assert set(alive) == {VIEW}
    assert alive[VIEW]["model_id"]


def test_without_widgets_only_the_static_form_is_sent(reports, sent, monkeypatch):
    monkeypatch.setattr(live.importlib.util, "find_spec", lambda _name: None)
    display_report(reports["mixed"])
    assert len(sent) == 1


def test_a_terminal_gets_text(reports, capsys):
    display_report(reports["mixed"])
    printed = capsys.readouterr().out
    assert printed.startswith("optimize · onnxrt · cell 4")
    assert "<table" not in printed


def test_old_views_are_closed_so_that_memory_does_not_grow(reports, sent):
    live.views.clear()
    display_report(reports["nothing"])
    first = live.views[0]
    for _ in range(live.MAX_VIEWS):
        display_report(reports["nothing"])
    assert len(live.views) == live.MAX_VIEWS
    assert first.widget.comm is None
    assert len(sent) == 2 * (live.MAX_VIEWS + 1)


def test_one_style_rule_hides_each_form_when_the_other_is_wanted(reports):
    html = report_mimebundle(reports["nothing"])["text/html"]
    assert ".jp-OutputArea-child:has(.dx-static):has(+ .jp-OutputArea-child .dx-live)" in html
    assert 'class="dx dx-static"' in html
    assert ":not(:has(.dx-live))" in html


def test_a_graph_can_be_taken_away_as_a_script(reports):
    view = ReportView(reports["mixed"])
    view.tabs.selected_index = TITLES.index("Graphs")
    shown = view.tabs.children[view.tabs.selected_index].children[0].children
    body = "".join(each.value for each in shown if isinstance(each, ipywidgets.HTML))
    assert 'download="g0.py"' in body
    script = base64.b64decode(body.split("base64,")[1].split('"')[0]).decode()
    compile(script, "g0.py", "exec")
    assert "class GraphModule" in script or "def forward" in script
    view.close()
