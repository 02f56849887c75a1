"""Seconds of a first run: what counts, and what is left."""

from __future__ import annotations

import pytest

from dynamo_ext.capture.events import capture_disabled
from dynamo_ext.timing import first_run
from dynamo_ext.timing.first_run import FirstRun
from tests.timing.fake_clock import seconds, stopped


def test_there_is_no_limit_where_nobody_asks() -> None:
    given = first_run.current()
    with given.working():
        assert not given.used_up()
    assert given.left == float("inf")


def test_only_work_counts_and_work_within_work_once() -> None:
    given = seconds()
    with given.working():
        stopped.now += 0.1
        with given.working():
            stopped.now += 0.05
    stopped.now += 1
    assert given.spent == pytest.approx(0.15)
    assert given.left == pytest.approx(0.05)
    assert not given.used_up()
    with given.working():
        stopped.now += 0.06
        assert "0.2 s for the first run" in given.used_up()


def test_nothing_begins_after_the_end_even_without_a_limit() -> None:
    given = FirstRun()
    given.close()
    assert given.used_up()


def test_eager_has_the_fewest_seconds_and_auto_the_most() -> None:
    usual = [first_run.usual_seconds(each) for each in ("eager:bf16", "onnxrt:int8", "auto")]
    assert usual == sorted(set(usual))


def test_what_took_the_last_of_it_is_named() -> None:
    given = seconds()
    for name in ("forward", "step", "forward", "loss"):
        with given.working(name):
            stopped.now += 0.06
    message = capture_disabled.used_up(given).message
    assert message.startswith("The 0.2 s for the first run were used up, 0.06 s by `loss`: what")


@pytest.mark.parametrize(("inner", "name"), [(0.25, "inductor"), (0.05, "the cell")])
def test_a_block_within_is_named_if_it_took_most(inner: float, name: str) -> None:
    given = seconds()
    with given.working("the cell"):
        with given.working("inductor", "inductor"):
            stopped.now += inner
        stopped.now += 0.2
    assert f"by `{name}`: what" in capture_disabled.used_up(given).message
    assert given.used_up().endswith(f"by `{name}`.")


def test_what_is_expected_to_outlast_the_second_half_does_not_begin() -> None:
    given = seconds()
    with given.working("forward", "forward"):
        stopped.now += 0.09
    assert not given.used_up(9.0), "of the first half, more than half is left"
    with given.working("step", "step"):
        stopped.now += 0.05
    assert "it would take about 0.09 s" in given.used_up(given.usual("forward"))
    assert not given.used_up(given.usual("step"))
    assert "about 0.07 s" in given.used_up(given.usual("new")), "as long as those before it"
    assert not given.used_up()
    assert "0.14 of the 0.2 s" in capture_disabled.used_up(given).message
    next_run = seconds()
    assert not next_run.used_up(next_run.usual("forward"))


def test_loading_an_engine_is_not_expected_again() -> None:
    given = seconds()
    with given.working("forward", "forward"):
        with given.working("inductor"):
            stopped.now += 0.1
        given.loaded(0.08)
        stopped.now += 0.01
    assert given.spent == pytest.approx(0.11)
    assert given.usual("forward") == given.usual("new") == pytest.approx(0.03)
    given.loaded_before(0.05)
    assert (given.left, given.usual("new")) == (pytest.approx(0.04), pytest.approx(0.03))
