"""A block that takes too long is stopped, and one that does not hears nothing of it."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from dynamo_ext.backends import patience
from dynamo_ext.backends.callables import CallableBackend
from dynamo_ext.backends.compilers import Compiler

if TYPE_CHECKING:
    from collections.abc import Iterator

Harness = Any


def endless() -> None:
    for _ in itertools.count():
        pass


def lasts(until: float) -> None:
    while time.perf_counter() < until:
        pass


def raises(error: BaseException) -> None:
    raise error


def watchers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "dynamo-ext-patience"]


@pytest.fixture(autouse=True)
def _nobody_watches_afterwards() -> Iterator[None]:
    yield
    for each in watchers():
        each.join(2)
    assert watchers() == []


def test_what_has_no_end_is_stopped() -> None:
    told = pytest.raises(TimeoutError, match=r"not compiled after 0\.1 s")
    with told, patience.allowing(0.1):
        patience.bounded(endless)


def test_nobody_watches_where_nothing_is_asked() -> None:
    assert patience.bounded(watchers) == []


def test_a_library_that_hides_errors_is_stopped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_AGAIN", 0.05)
    hidden: list[BaseException] = []

    def hides() -> None:
        while True:
            try:
                endless()
            except Exception:  # noqa: BLE001
                pytest.fail("a library would take it for its own")
            except BaseException as error:
                hidden.append(error)
                if len(hidden) > 1:
                    raise

    with pytest.raises(TimeoutError), patience.allowing(0.05):
        patience.bounded(hides)
    assert len(hidden) == 2


@pytest.mark.parametrize("where", ["a finaliser", "a callback of the garbage collector's"])
def test_one_that_is_lost_is_not_told_and_comes_again(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    lost: list[type[BaseException] | None] = []
    told: list[object] = []
    monkeypatch.setattr(patience, "_AGAIN", 0.05)
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    before = sys.unraisablehook

    def loses(*_: object) -> None:
        # Python collects when it likes, and nobody would end this one where nobody watches.
        if watchers() and not lost:
            try:
                endless()
            finally:
                lost.append(sys.exc_info()[0])

    class Finalised:
        __del__ = loses

    def finalises() -> None:
        Finalised()
        endless()

    def collects() -> None:
        gc.callbacks.append(loses)
        gc.collect()
        endless()

    try:
        with pytest.raises(TimeoutError), patience.allowing(0.05):
            patience.bounded(finalises if where == "a finaliser" else collects)
    finally:
        gc.callbacks[:] = [each for each in gc.callbacks if each is not loses]
    assert [each.__name__ for each in lost if each] == ["LateError"]
    assert told == []
    assert sys.unraisablehook is before


def test_what_others_lose_is_told_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: told.append(lost.exc_type))

    class Failing:
        def __del__(self) -> None:
            raise ValueError

    with patience.allowing(5):
        patience.bounded(Failing)
    assert told == [ValueError]


def test_what_ends_at_the_last_moment_ends_well_or_late_and_nothing_comes_after() -> None:
    ended = {"well": 0, "late": 0}
    former = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        # A machine with much else to do is given longer until it has shown both.
        for turn in range(6000):
            if turn >= 600 and all(ended.values()):
                break
            until = time.perf_counter() + 0.0006 + turn % 20 * 0.0001 * (1 + turn // 600)
            try:
                with patience.allowing(0.001):
                    patience.bounded(lambda: lasts(until))  # noqa: B023 - called at once
            except TimeoutError:
                ended["late"] += 1
            else:
                ended["well"] += 1
            # Where something was still to come, it would come here.
            for _ in range(200):
                pass
    finally:
        sys.setswitchinterval(former)
    assert ended["late"]
    assert ended["well"]


def test_an_error_and_an_interrupt_are_what_they_were() -> None:
    for error in (ValueError("mine"), KeyboardInterrupt()):
        with pytest.raises(type(error)), patience.allowing(5):
            patience.bounded(lambda: raises(error))  # noqa: B023 - called at once


PROFILED = """
import contextlib, sys, time
from dynamo_ext.backends import patience

for seconds in (50, 0.01):
    with contextlib.suppress(TimeoutError), patience.allowing(seconds):
        patience.bounded(lambda: [time.sleep(0.001) for _ in range(50)])
for install in (sys.setprofile, sys.settrace):
    install(lambda *_: None)
    (lambda: None)()
    install(None)
"""


def test_a_profiler_and_a_debugger_work_afterwards() -> None:
    """Python itself would never come back from the next call where something is left behind."""
    subprocess.run([sys.executable, "-c", PROFILED], check=True, timeout=120)


def test_one_within_another_has_its_own_time() -> None:
    def around() -> str:
        with patience.allowing(0.05), pytest.raises(TimeoutError):
            patience.bounded(endless)
        with patience.allowing(5):
            assert patience.bounded(lambda: "well") == "well"
        return "more"

    with patience.allowing(5):
        assert patience.bounded(around) == "more"


def test_what_is_sent_to_the_outer_one_ends_the_inner_one_too() -> None:
    def around() -> None:
        with patience.allowing(5):
            patience.bounded(endless)

    told = pytest.raises(TimeoutError, match=r"after 0\.05 s")
    with told, patience.allowing(0.05):
        patience.bounded(around)


def test_another_thread_is_stopped_by_itself() -> None:
    found: list[str] = []

    def work() -> None:
        try:
            with patience.allowing(0.05):
                patience.bounded(endless)
        except TimeoutError as error:
            found.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert found == ["It was not compiled after 0.05 s."]


def without_end(graph: Any, inputs: Any) -> Any:
    endless()


@pytest.mark.parametrize("whole", [True, False])
def test_a_compiler_without_an_end_leaves_eager_and_its_reason(
    harness: Harness, scripted: Any, *, whole: bool
) -> None:
    backend = scripted
    if whole:
        backend = CallableBackend(without_end)
    else:
        scripted.lower_error = lambda _: endless()
    x = torch.randn(3, 4)
    with torch.no_grad(), patience.allowing(0.5):
        run = harness.compile(lambda t: (t + 1).sin() * 2 + 1, Compiler(backend, {}))
        assert torch.equal(run(x), (x + 1).sin() * 2 + 1)
        assert torch.equal(run(x), (x + 1).sin() * 2 + 1)
    (told,) = harness.journal.fallbacks.values()
    assert (told.stage, told.scope, told.exception) == ("lower", "graph", "TimeoutError")
    assert told.remedy == patience.REMEDY
    assert not harness.journal.partitions


def test_who_tries_others_is_not_stopped_itself(harness: Harness) -> None:
    class Trying(CallableBackend):
        checks_itself = True

    def slow(graph: Any, inputs: Any) -> Any:
        time.sleep(0.3)
        return graph.forward

    with torch.no_grad(), patience.allowing(0.05):
        harness.compile(lambda t: t + 1, Compiler(Trying(slow), {}))(torch.randn(3))
    assert not harness.journal.fallbacks
