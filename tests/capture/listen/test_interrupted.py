"""A user's time limit ends a cell whatever it interrupts: tracing, compiling, or a compiled call."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.capture.live import Live

# Python drops an exception that a signal raises within a finaliser: the alarm goes off again then.
ENDLESS = """
signal.setitimer(signal.ITIMER_REAL, {seconds}, 20)
while True:
    y = (x.sin() + 1).cos()
    n += 1
"""
LIMITED = """
import dynamo_ext
def endless(x):
    while True:
        x = (x.sin() + 1).cos()
endless = dynamo_ext.optimize("eager")(endless)
signal.setitimer(signal.ITIMER_REAL, {seconds}, 20)
try:
    endless(x)
except Late as late:
    signal.setitimer(signal.ITIMER_REAL, 0)
    caught = late.args
z = x * 2
"""
HANDLER = """
import signal
class Late(Exception): pass
def handler(number, frame): raise Late("over")
signal.signal(signal.SIGALRM, handler)
n = 0
"""


@pytest.fixture
def limited(cells: Live) -> Iterator[Live]:
    former = signal.getsignal(signal.SIGALRM)
    cells.well(HANDLER)
    yield cells
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


@pytest.mark.parametrize("seconds", [0.01, 0.1, 0.5])
def test_an_endless_loop_ends(limited: Live, seconds: float) -> None:
    ran, report = limited.failed(ENDLESS.format(seconds=seconds))
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert type(ran.error).__name__ == "Late"
    assert ran.error is not None
    assert ran.error.args == ("over",)
    assert "torch/_dynamo" not in ran.shown
    assert not [f for f in report.fallbacks if f.exception == "Late"]
    limited.well("%%dynamo -b eager --quiet\nw = x + 1")


@pytest.mark.parametrize("seconds", [0.05, 0.5])
def test_who_calls_a_captured_function_may_catch_it(limited: Live, seconds: float) -> None:
    limited.well(LIMITED.format(seconds=seconds))
    assert limited.names["caught"] == ("over",)
    assert limited.names["z"].tolist() == [0, 2, 4]


def test_the_line_of_the_loop_is_shown(limited: Live) -> None:
    handler = "def handler(number, frame): raise KeyboardInterrupt\nx = torch.rand(500, 500)"
    limited.well(f"{handler}\nsignal.signal(signal.SIGALRM, handler)")
    ran, report = limited.failed(ENDLESS.format(seconds=1.5).replace("x.sin()", "x @ x"))
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert isinstance(ran.error, KeyboardInterrupt)
    assert report.stopped_at >= 4
