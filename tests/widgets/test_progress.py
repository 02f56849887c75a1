"""What a user sees while something takes long: when it shows, what it says, that it goes."""

from __future__ import annotations

import re
import threading
import time
from unittest import mock

import pytest

from dynamo_ext.records.progress import RaceProgress, Standing
from dynamo_ext.widgets import progress
from dynamo_ext.widgets.progress import Screen, Waiting


class Shown(Screen):
    """Keeps what it is to show."""

    def __init__(self):
        super().__init__()
        self.texts = []
        self.htmls = []

    def show(self, html, text):
        self.htmls.append(str(html))
        self.texts.append(text)


def waiting(patience=0.0):
    made = Waiting("Comparing", patience)
    made._screen = Shown()
    return made, made._screen


def until_shown(screen, number=1, said=""):
    end = time.monotonic() + 20
    while len(screen.texts) < number or said not in screen.htmls[-1]:
        assert time.monotonic() < end
        time.sleep(0.001)
    return words(screen.htmls[-1])


def words(html):
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL).split())


def test_a_cell_with_a_limit_says_what_comes_after_it():
    made, screen = waiting()
    with made:
        made.spent = lambda: (12.3, 20.0)
        made.tell("capturing the cell")
        shown = until_shown(screen)
    assert "12 of 20 s, then the cell goes on in plain Python." in shown


def test_a_long_compile_is_told_and_nothing_is_left():
    made, screen = waiting(0.02)
    with made:
        made.tell("graph 1 (8 operations of the cell) with onnxrt")
        until_shown(screen)
        made.tell("")
    assert re.fullmatch(
        r"Comparing: graph 1 \(8 operations of the cell\) with onnxrt\. \d s so far\.",
        screen.texts[0],
    )
    assert screen.texts[-1] == screen.htmls[-1] == ""


def test_what_a_backend_says_it_does_stands_for_the_phase():
    made, screen = waiting()
    standings = (Standing("inductor", "compiling"),)
    with made:
        made.show(RaceProgress("", "compiling", "inductor", standings, doing="inductor checks it"))
        assert until_shown(screen).startswith("Comparing inductor checks it. 0 s so far.")


def test_a_short_compile_is_not_worth_a_line():
    made, screen = waiting(patience=30)
    with made:
        made.tell("graph 1")
        made.tell("")
    assert not screen.texts


def test_running_long_after_a_short_compile_is_none_either(monkeypatch):
    passed = mock.Mock(return_value=1.0)
    monkeypatch.setattr(progress.time, "perf_counter", passed)
    made, screen = waiting(0.02)
    with made:
        made.tell("graph 1")
        made.tell("")
        passed.return_value = 100.0
        time.sleep(0.3)
    assert not screen.texts


def test_what_follows_a_short_wait_has_its_own_patience():
    made, screen = waiting(patience=30)
    with made:
        made.tell("loading torch._dynamo", 30)
        made.tell("")
        made.tell("loading again", 0)
        until_shown(screen)
    assert "loading again" in screen.texts[0]


def test_a_cell_that_compiles_nothing_has_no_thread():
    before = threading.active_count()
    made, _ = waiting()
    with made:
        assert threading.active_count() == before


def test_no_thread_is_left():
    made, _ = waiting()
    with made:
        made.tell("graph 1")
    made.tell("after its end")
    assert not [t for t in threading.enumerate() if t.name == "dynamo_ext-waiting"]


def test_every_candidate_has_a_row():
    made, screen = waiting()
    standings = (
        Standing("eager", "ready"),
        Standing("onnxrt", "out", reason="It gave wrong results."),
        Standing("tvm", "compiling"),
        Standing("ts"),
    )
    with made:
        made.show(RaceProgress("", "compiling", "tvm", standings, left=41.0))
        said = until_shown(screen)
    assert re.match(
        r"Comparing tvm: compiling\. \d s so far, about 4\d s left\. eager ready ", said
    )
    assert "onnxrt It gave wrong results. tvm compiling ts waits Interrupt" in said
    assert "onnxrt" not in screen.texts[0]


def test_a_graph_that_was_raced_before_gives_way_to_the_next():
    made, screen = waiting()
    first = (Standing("eager", "ready", 0.004), Standing("onnxrt", "ready", 0.002))
    second = (Standing("eager", "ready", 0.003), Standing("onnxrt"))
    with made:
        made.show(RaceProgress("graph 1", "timing", "eager", first, 12))
        made.show(RaceProgress("graph 2", "compiling", "onnxrt", second, left=4.0))
        said = until_shown(screen, said="graph 2")
    assert said.startswith("Racing graph 2 onnxrt: compiling. ")
    assert "s left. eager timed 3.00 ms a call onnxrt compiling Interrupt" in said


def test_a_race_within_a_comparison_is_shown_under_it(monkeypatch):
    monkeypatch.setattr(progress, "_LONG_SAMPLE", 0.01)
    made, screen = waiting()
    with made:
        made.show(RaceProgress("", "compiling", "auto", (Standing("auto", "compiling"),)))
        raced = (Standing("openvino", "ready", 0.002),)
        made.show(RaceProgress("graph 1", "timing", "openvino", raced, 3, 4, 5.0))
        said = until_shown(screen, said="graph 1 ")
        made.show(RaceProgress("", "compiling", "ts", (Standing("ts", "compiling"),)))
        after = until_shown(screen, said="ts: ")
    assert "auto: compiling; graph 1 openvino: timing, round 3 of 4." in said
    assert "openvino being timed 2.00 ms a call" in said
    assert "openvino" not in after
    assert "round 3" not in after


@pytest.mark.parametrize(
    ("late", "said"), [(0.0, "about 9 s left"), (10.0, "about 1 s left"), (20.0, "longer than")]
)
def test_an_estimate_counts_down_and_is_never_0_for_long(monkeypatch, late, said):
    passed = mock.Mock(return_value=100.0)
    monkeypatch.setattr(progress.time, "perf_counter", passed)
    made, screen = waiting()
    with made:
        made.tell("warming up")
        until_shown(screen)
        made.show(RaceProgress("", "compiling", "tvm", left=9.0))
        passed.return_value += late
        until_shown(screen, len(screen.texts) + 2)
    assert said in screen.texts[-2]


def test_nothing_is_shown_within_a_sample(monkeypatch):
    monkeypatch.setattr(progress, "_TICK", 0.01)
    made, screen = waiting()
    with made:
        made.tell("compiling")
        until_shown(screen)
        made.show(RaceProgress("", "timing", "eager", round=1))
        time.sleep(0.05)
        shown = len(screen.texts)
        time.sleep(0.3)
        assert len(screen.texts) == shown
        made.show(RaceProgress("", "timing", "eager", round=2))
        assert "round 2" in screen.texts[-1]


def test_outside_notebooks_and_terminals_nothing_is_shown(capsys):
    Screen().show("<p>x</p>", "x")
    assert capsys.readouterr() == ("", "")
