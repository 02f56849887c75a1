from __future__ import annotations

import dataclasses
import json
import re

import pytest

from dynamo_ext.widgets import live
from dynamo_ext.widgets.comparison.view import TITLES, ComparisonView, display_comparison

VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def view(compared):
    made = ComparisonView(compared["full"])
    yield made
    made.close()


def names(view):
    """The candidates' names, from the top of the open table."""
    return re.findall(r'<th scope="row"[^>]*><b>([^<]*)</b>', view.panes["Speed"].value)


def sorted_by(view):
    return re.findall(
        r'title="[^"]*" aria-sort="(\w+ending)"><button[^>]*>([^<]*)<', view.panes["Speed"].value
    )


def test_it_opens_with_the_baseline_and_the_best_on_top(view):
    assert names(view)[:3] == ["eager", "openvino", "inductor"]
    assert not sorted_by(view)
    assert view.order.disabled


def test_a_column_sorts_from_its_best_value(view):
    view.sort.value = "Median"
    assert names(view)[:2] == ["tvm", "openvino"]
    assert sorted_by(view) == [("ascending", "Median ▲")]
    view.order.value = True
    assert names(view)[0] == "ts"
    assert names(view)[-3:] == ["tensorrt", "xla", "nvfuser"], "no value, so last either way"
    assert sorted_by(view) == [("descending", "Median ▼")]
    view.sort.value = "Speedup"
    assert names(view)[0] == "openvino"
    assert view.order.value
    view.sort.value = "Candidate"
    assert names(view) == sorted(names(view))
    view.sort.value = "Best first"
    assert names(view)[0] == "eager"


def test_a_header_moves_the_sort_control(view):
    made = view.panes["Speed"].value
    index = view.sort.options.index("Median")
    assert f"s.selectedIndex = {index};" in made
    view.sort.value = "Median"
    assert ".dx-order" in view.panes["Speed"].value, "again turns the order round"


def test_the_filter_looks_at_name_option_and_verdict(view):
    view.find.value = "max-auto"
    assert names(view) == ["inductor"]
    assert "9 candidates filtered out." in view.panes["Speed"].value
    view.find.value = "FASTER"
    assert names(view) == ["openvino", "inductor"]
    view.find.value = "<nowhere>"
    assert "No candidate matches" in view.panes["Speed"].value


def test_columns_follow_their_control(view):
    view.columns.value = "All"
    assert "Max rel. error" in view.panes["Speed"].value
    view.columns.value = "Coverage and memory"
    assert "Fallbacks" in view.panes["Speed"].value
    assert "Median" not in re.sub(r"<svg.*", "", view.panes["Speed"].value, flags=re.DOTALL)


def test_panes_are_drawn_when_their_tab_is_open(view):
    assert not view.panes["Samples"].value
    for index, words in enumerate(["Speedup", "✗ off", "★ 50.0 µs", "all rounds"]):
        view.tabs.selected_index = index
        assert words in view.panes[TITLES[index]].value
    view.find.value = "openvino"
    assert "all rounds: openvino" not in view.panes["Samples"].value
    assert 'aria-label="Time of a call' in view.panes["Samples"].value
    assert "inductor" not in view.panes["Samples"].value
    assert "✗ off" in view.panes["Accuracy"].value, "not open, so not drawn"
    view.tabs.selected_index = 1
    assert "✗ off" not in view.panes["Accuracy"].value
    view.tabs.selected_index = None


def test_a_graph_opens_with_its_times_and_source(view):
    view.tabs.selected_index = 2
    assert "def forward" not in view.panes["Graphs"].value
    view.graph.value = "g0"
    assert "def forward" in view.panes["Graphs"].value
    assert "12 of 4,096 elements differ." in view.panes["Graphs"].value
    assert view.tabs.titles[2] == "Graphs (2)"


def test_empty_panes_say_so(compared):
    view = ComparisonView(compared["empty"])
    for index, words in [
        (0, "nothing to draw"),
        (1, "No result"),
        (2, "--per-graph"),
        (3, "nothing to"),
    ]:
        view.tabs.selected_index = index
        assert words in view.panes[TITLES[index]].value
    view.close()


def test_use_this_backend_calls_and_says_what_came_of_it(compared):
    used: list[str] = []
    view = ComparisonView(compared["full"], lambda name: used.append(name) or f"`{name}` <is> it")
    assert view.choice.value == "openvino", "the best"
    options = [name for _, name in view.choice.options]
    assert options == ["eager", "openvino", "inductor", "onnxrt", "ts"], "none that is wrong"
    view.choice.value = "inductor"
    view.button.click()
    assert used == ["inductor"]
    assert "<code>inductor</code> &lt;is&gt; it." in view.said.value
    assert 'role="status"' in view.said.value
    view.close()


def test_an_error_of_use_is_shown_not_raised(compared):
    def refuse(name):
        raise ValueError(name + " <engine>")

    view = ComparisonView(compared["full"], refuse)
    view.button.click()
    assert "✗ openvino was not set. ValueError: openvino &lt;engine&gt;." in view.said.value
    view.close()


def test_where_only_the_baseline_was_measured_there_is_nothing_to_use(compared):
    record = compared["full"]
    waiting = [
        each
        if each.name == record.baseline
        else dataclasses.replace(each, outcome="failed", speedup=None, timing=None)
        for each in record.candidates
    ]
    early = dataclasses.replace(record, candidates=tuple(waiting), interrupted=True)
    view = ComparisonView(early, str)
    assert view.button is None
    view.close()


def test_without_use_there_is_no_such_control(view, walk):
    assert view.button is None
    assert not [w for w in walk(view.widget) if type(w).__name__ == "Button"]


def test_an_error_in_a_callback_is_shown(view, monkeypatch):
    monkeypatch.setattr(view, "_body", lambda _name: 1 / 0)
    view.find.value = "x"
    assert "ZeroDivisionError" in view.panes["Speed"].value


def test_closing_closes_all_that_it_made(compared, walk):
    view = ComparisonView(compared["full"], str)
    found = [*walk(view.widget), view.graph]
    view.close()
    assert all(widget.comm is None for widget in found)


def test_hostile_names_stay_text(compared, page, rude):
    view = ComparisonView(compared["rude"], str)
    for index, title in enumerate(TITLES):
        view.tabs.selected_index = index
        tags = {tag for tag, _ in page(view.panes[title].value).tags}
        assert "script" not in tags
    view.tabs.selected_index = 2
    view.graph.value = rude
    read = page(view.panes["Graphs"].value)
    assert rude in read.text
    assert "script" not in {tag for tag, _ in read.tags}
    view.close()


def test_a_notebook_gets_the_static_form_and_then_the_widget_alone(compared, sent):
    live.views.clear()
    display_comparison(compared["full"], str)
    static, alive = sent
    assert 'class="dx dx-static"' in static["text/html"]
    assert set(alive) == {VIEW}
    assert "dx-live" in live.views[-1].widget._dom_classes
    live.views.pop().close()


def test_the_static_form_is_html_and_text_alone(a_comparison, sent):
    display_comparison(a_comparison)
    assert set(sent[0]) == {"text/html", "text/plain"}
    assert all(type(value) is str for value in sent[0].values())
    json.dumps(sent[0])
    live.views.pop().close()


def test_reports_and_comparisons_share_the_bound_on_live_views(compared, sent, monkeypatch):
    live.views.clear()
    monkeypatch.setattr(live, "MAX_VIEWS", 2)
    small = dataclasses.replace(compared["empty"])
    for _ in range(3):
        display_comparison(small)
    assert len(live.views) == 2
    assert len(sent) == 6
    while live.views:
        live.views.pop().close()
