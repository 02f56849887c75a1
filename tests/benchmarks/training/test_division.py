"""What dividing graphs costs: processes that take turns, and the page."""

from __future__ import annotations

import itertools
import time
from functools import partial
from typing import Any

import pytest

pytest.importorskip("transformers")

from benchmarks.training import division, turns
from benchmarks.training.division import Count, Time


def test_calls_are_timed_in_processes_of_their_own() -> None:
    # Each makes a call that waits.
    makers = [partial(partial, time.sleep, seconds) for seconds in (0.001, 0.02)]
    short, long = turns.in_turn(makers, 3)
    assert len(short) == len(long) == 3
    for fast, slow in itertools.product(short, long):
        assert 0.001 < fast < 0.02 < slow < 0.2


def test_a_process_that_cannot_make_its_call_ends_the_measurement() -> None:
    wrong: Any = partial(int, "no number")
    with pytest.raises(EOFError):
        turns.in_turn([wrong], 1)


def test_the_page_has_shares_and_ratios() -> None:
    counts = [Count("even", "", 6, 6), Count("odd", "", 4, 3), Count("large", "It was late.")]
    times = [Time("a step", (0.001, 0.002, 0.004), (0.001, 0.003, 0.004), (0.001, 0.002, 0.002))]
    page = division.page(counts, times, "onnxrt")
    assert "Of all 2 together 90.0% of" in page
    assert "Not counted: large (It was late.)" in page
    assert "| odd | 4 | 3 |" in page
    assert "| even |" not in page
    ratios = "1.000 [1.000–1.500] | 1.000 [0.500–1.000]"
    assert f"| a step | 2.00 | 3.00 | {ratios} |" in page
    assert "median of 3\nor more launches" in page
