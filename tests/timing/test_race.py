"""Interleaving, plans, failures and interrupts, on stand-in code and a clock that it moves."""

from __future__ import annotations

import gc
import itertools
import time

import pytest

from dynamo_ext.records.progress import RaceProgress
from dynamo_ext.timing import clock
from dynamo_ext.timing.race import PROGRESS_SECONDS, Plan, TimedCallable, race
from tests.timing import fake_clock


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    return fake_clock.install(monkeypatch, tick=1e-6)


class Code:
    """Notes its calls; takes some time."""

    def __init__(self, name, log, seconds=0.0, fails_at=None, error=ValueError):
        self.name, self.log, self.seconds = name, log, seconds
        self.fails_at, self.error, self.count = fails_at, error, 0

    def __call__(self):
        self.count += 1
        self.log.append(self.name)
        if self.fails_at is not None and self.count >= self.fails_at:
            raise self.error(self.name)
        clock.time.sleep(self.seconds)


def contenders(log, *names, **kwargs):
    return [TimedCallable(n, Code(n, log, 0.003, **kwargs), before=lambda: None) for n in names]


def test_every_round_has_each_contender_once_in_a_changing_order():
    log = []
    entered = contenders(log, "a", "b", "c")
    race(entered, Plan(budget=60, rounds=12))
    rounds = [log[i : i + 3] for i in range(3, len(log), 3)]
    assert len(rounds) == 12
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds)
    assert len({tuple(r) for r in rounds}) > 1
    assert [len(c.samples) for c in entered] == [12, 12, 12]


def test_the_schedule_follows_the_seed():
    logs = []
    for _ in range(2):
        log = []
        race(contenders(log, "a", "b", "c"), Plan(budget=60, rounds=8, seed=4))
        logs.append(log)
    assert logs[0] == logs[1]


def test_short_code_is_timed_several_calls_at_a_time():
    log = []
    quick = TimedCallable("quick", Code("quick", log))
    race([quick], Plan(budget=60, rounds=6))
    assert quick.calls > 50
    assert quick.timing.calls == quick.calls
    assert quick.timing.median < 1e-4


def test_code_that_must_be_put_back_is_timed_call_by_call():
    log = []
    once = TimedCallable("once", Code("once", log), before=lambda: log.append("back"))
    race([once], Plan(budget=60, rounds=6))
    assert once.calls == 1
    assert log == ["back", "once"] * 7


def test_a_contender_that_fails_drops_out_and_the_others_go_on():
    log = []
    good = contenders(log, "base", "good")
    bad = TimedCallable("bad", Code("bad", log, fails_at=5), before=lambda: None)
    race([*good, bad], Plan(budget=60, rounds=10))
    assert isinstance(bad.error, ValueError)
    assert [len(c.samples) for c in good] == [10, 10]
    assert len(bad.samples) == 3


def test_a_baseline_that_fails_ends_the_race():
    log = []
    bad = TimedCallable("bad", Code("bad", log, fails_at=4), before=lambda: None)
    race([bad, *contenders(log, "good")], Plan(budget=60, rounds=1_000))
    assert isinstance(bad.error, ValueError)
    assert log.count("good") < 10


def test_an_interrupt_keeps_whole_rounds_only():
    log = []
    entered = contenders(log, "a", "b")
    stops = TimedCallable(
        "stops", Code("stops", log, fails_at=6, error=KeyboardInterrupt), before=lambda: None
    )
    with pytest.raises(KeyboardInterrupt):
        race([*entered, stops], Plan(budget=60, rounds=20))
    assert len({len(c.samples) for c in [*entered, stops]}) == 1
    assert len(entered[0].samples) == 4


def test_the_budget_ends_it(fake):
    log = []
    started = fake.perf_counter()
    cut_short = race(contenders(log, "a", "b"), Plan(budget=0.2, rounds=10_000))
    assert cut_short
    # A round that has begun is finished.
    assert 0.2 < fake.perf_counter() - started < 0.22


def test_a_limit_ends_it_with_fewer_rounds_than_an_interval_needs(fake):
    entered = contenders([], "a", "b")
    assert race(entered, Plan(budget=0.01, limit=0.02))
    assert 1 <= len(entered[0].samples) == len(entered[1].samples) < 6


def test_equal_times_settle_early():
    entered = contenders([], "a", "b")
    assert not race(entered, Plan(budget=60))
    assert len(entered[0].samples) == 20


def test_the_collector_is_off_while_it_runs_and_on_afterwards():
    seen = []
    race(
        [TimedCallable("a", lambda: seen.append(gc.isenabled()), before=gc.isenabled)],
        Plan(rounds=6),
    )
    assert not any(seen)
    assert gc.isenabled()


def test_progress_tells_who_runs_and_is_rare():
    told = []
    at = []

    def tell(step):
        told.append(step)
        at.append(clock.time.perf_counter())

    race(contenders([], "a", "b"), Plan(budget=60, rounds=400), progress=tell)
    assert all(isinstance(step, RaceProgress) for step in told)
    assert 4 <= len(told) <= 20
    assert told[-1].rounds == 400
    assert all(after - before >= PROGRESS_SECONDS for before, after in itertools.pairwise(at))
    assert {step.candidate for step in told} <= {"a", "b"}


@pytest.mark.parametrize("plan", [Plan(budget=60, rounds=40), Plan(budget=2.5, fewest=1_000)])
def test_what_is_left_is_estimated_from_the_rounds_so_far(plan):
    told = []
    slow = TimedCallable("slow", Code("slow", [], 0.1), before=lambda: None)
    race([slow], plan, progress=lambda step: told.append((clock.time.perf_counter(), step)))
    over = clock.time.perf_counter()
    assert told[0][1].left is None
    late = [(over - at, step.left) for at, step in told if step.round > 1]
    assert len(late) >= 3
    assert all(abs(left - true) < 0.25 for true, left in late)


@pytest.mark.parametrize(("seconds", "least", "most"), [(1.0, 1, 1), (0.0005, 15, 25)])
def test_a_sample_is_as_long_as_the_clock_needs(seconds, least, most):
    code = TimedCallable("code", lambda: clock.time.sleep(seconds))
    race([code], Plan(rounds=6))
    assert least <= code.calls <= most


def test_everybody_makes_as_many_calls_a_sample():
    runners = [
        TimedCallable("one", lambda: clock.time.sleep(0.0005)),
        TimedCallable("two", lambda: clock.time.sleep(0.001)),
    ]
    race(runners, Plan(rounds=6))
    assert runners[0].calls == runners[1].calls
    assert runners[0].calls > 1


def test_who_is_far_slower_has_fewer_and_leaves_the_others_theirs():
    runners = [
        TimedCallable("short", lambda: None),
        TimedCallable("long", lambda: clock.time.sleep(0.02)),
    ]
    race(runners, Plan(rounds=6))
    assert runners[0].calls == clock.MAX_CALLS
    # A sample of the longer one stays bearable.
    assert 1 <= runners[1].calls <= 0.1 / 0.02


def test_calls_after_which_state_is_put_back_are_timed_one_by_one():
    runners = [
        TimedCallable("one", lambda: None, before=lambda: None),
        TimedCallable("two", lambda: None),
    ]
    race(runners, Plan(rounds=6))
    assert [runner.calls for runner in runners] == [1, 1]


def test_nobody_is_timed_beside_threads_that_still_spin(fake):
    fake.spins_until = ended = fake.perf_counter() + 0.02
    clock.wait_for_idle_threads()
    assert ended <= fake.perf_counter() <= ended + 0.01


def test_threads_that_never_sleep_are_waited_for_only_so_long(fake):
    fake.spins_until, started = float("inf"), fake.perf_counter()
    clock.wait_for_idle_threads()
    assert fake.perf_counter() - started == pytest.approx(clock.MAX_WAIT_SECONDS, abs=1e-5)


def test_a_call_takes_the_seconds_that_pass(monkeypatch):
    monkeypatch.setattr(clock, "time", time)
    assert clock.seconds_per_call(lambda: time.sleep(0.002), 3) >= 0.002


def test_short_code_runs_before_it_is_timed():
    log = []
    short = TimedCallable("short", Code("short", log, 0.002))
    race([short], Plan(rounds=6))
    lead_in = (short.calls + 1) // 2
    assert len(log) == 2 + 6 * (lead_in + short.calls)
