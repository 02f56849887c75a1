"""The line that says what is being compiled: when it shows, what it says, that it goes."""

from __future__ import annotations

import threading
import time
from unittest import mock

from dynamo_ext.widgets import progress
from dynamo_ext.widgets.progress import CompilingLine


class Line:
    """Takes down what a progress line is told."""

    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("shown")
        return self

    def __exit__(self, *_):
        self.log.append("gone")

    def tell(self, words, share=-1.0):
        del share
        self.log.append(words)


def line(patience=0.02):
    log = []
    return CompilingLine(patience, lambda _: Line(log)), log


def test_a_long_compile_is_told_and_the_line_goes():
    made, log = line()
    with made:
        made.tell("graph 1 (8 operations of the cell) with onnxrt")
        while len(log) < 2:
            time.sleep(0.001)
        made.tell("")
    assert log[:2] == ["shown", "graph 1 (8 operations of the cell) with onnxrt"]
    assert log[-1] == "gone"


def test_a_short_compile_is_not_worth_a_line():
    made, log = line(patience=30)
    with made:
        made.tell("graph 1")
        made.tell("")
    assert not log


def test_running_long_after_a_short_compile_is_none_either(monkeypatch):
    seconds = mock.Mock(return_value=1.0)
    monkeypatch.setattr(progress.time, "perf_counter", seconds)
    made, log = line()
    with made:
        made.tell("graph 1")
        made.tell("")
        seconds.return_value = 100.0
        time.sleep(0.1)
    assert not log


def test_a_cell_that_compiles_nothing_has_no_thread():
    before = threading.active_count()
    made, _ = line()
    with made:
        assert threading.active_count() == before


def test_no_thread_is_left():
    made, _ = line()
    with made:
        made.tell("graph 1")
    assert not [t for t in threading.enumerate() if t.name == "dynamo_ext-compiling"]
