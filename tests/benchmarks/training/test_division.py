"""What dividing graphs costs: processes that take turns."""

from __future__ import annotations

import itertools
import time
from functools import partial
from typing import Any

import pytest

pytest.importorskip("transformers")

from benchmarks.training import turns


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
