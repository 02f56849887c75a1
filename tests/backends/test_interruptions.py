"""What a signal handler raises is told from the error of what it interrupted."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.auto import graph_race
from dynamo_ext.interruptions import Listening, failures, interruption, suppressed
from dynamo_ext.measure.multi_backend import MultiBackendGraph, compile_into
from dynamo_ext.timing.race import Plan, TimedCallable, race
from tests.backends.pipeline.test_whole_graph import X, fn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class LateError(Exception):
    """Of the user's."""


def late(_number: int, _frame: Any) -> None:
    raise LateError


class Limit:
    def __call__(self, number: int, frame: Any) -> None:
        raise LateError

    def method(self, number: int, frame: Any) -> None:
        late(number, frame)


def wrapped(*args: Any, **kwargs: Any) -> None:
    try:
        raise KeyError  # noqa: TRY301
    except KeyError as error:
        raise LateError from error


def spin() -> None:
    until = time.perf_counter() + 20
    while time.perf_counter() < until:
        time.sleep(0.001)


@pytest.fixture
def alarm() -> Iterator[Callable[[Any], None]]:
    """Sets a handler, whose signal comes soon."""
    former = signal.getsignal(signal.SIGALRM)

    def soon(handler: Any) -> None:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.02)

    yield soon
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


def plain() -> None:
    spin()


def converted() -> None:
    try:
        spin()
    except Exception as error:  # noqa: BLE001
        message = "The engine failed."
        raise RuntimeError(message).with_traceback(error.__traceback__) from None


def converted_twice() -> None:
    try:
        converted()
    except Exception as error:
        raise ValueError(str(error)) from error


HANDLERS = [
    late,
    lambda *_: late(0, None),
    Limit(),
    Limit().method,
    wrapped,
    functools.partial(wrapped, 1),
]


@pytest.mark.parametrize("work", [plain, converted, converted_twice])
@pytest.mark.parametrize("handler", HANDLERS)
def test_a_handlers_exception_is_passed_on_as_it_was(
    alarm: Any, handler: Any, work: Callable[[], None]
) -> None:
    def caught() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001
            found.append(interruption(error))
            failures()

    found: list[Any] = []
    alarm(handler)
    with pytest.raises(LateError) as raised:
        caught()
    assert found == [raised.value]
    assert raised.value.__context__ is None or isinstance(raised.value.__context__, KeyError)


def of_failure(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001
        failures()
        return interruption(error)
    return None


def test_a_failure_is_not_passed_on() -> None:
    def fails(number: int, frame: Any) -> None:
        raise LateError

    for call in (lambda: late(14, None), lambda: fails(14, "call"), lambda: int("x")):
        assert of_failure(call) is None


def test_what_is_handled_farther_out_is_over(alarm: Any) -> None:
    def again() -> None:
        try:
            int("x")
        except ValueError as error:
            message = "again"
            raise KeyError(message) from error

    alarm(late)
    found = []
    try:
        spin()
    except LateError:
        found.append(of_failure(again))
        try:
            again()
        except KeyError as error:
            found.append(interruption(error))
    assert found == [None, None]


def test_a_trace_functions_exception_is_passed_on() -> None:
    def traces(frame: Any, event: str, arg: Any) -> Any:
        raise LateError

    former = sys.gettrace()
    sys.settrace(traces)
    try:
        spin()
    except LateError as error:
        found = interruption(error)
    finally:
        sys.settrace(former)
    assert isinstance(found, LateError)


def test_suppressed(alarm: Any) -> None:
    with suppressed(ValueError):
        int("x")
    with pytest.raises(KeyError), suppressed(ValueError):
        raise KeyError
    alarm(late)
    with pytest.raises(LateError), suppressed(Exception):
        spin()


@pytest.fixture
def ring() -> Iterator[Callable[[], None]]:
    """Has a signal come here and now, whose handler raises."""
    former = signal.signal(signal.SIGALRM, lambda *_: late(0, None))
    yield lambda: signal.raise_signal(signal.SIGALRM)
    signal.signal(signal.SIGALRM, former)


def test_what_is_dropped_within_a_block_is_raised_at_its_end(ring: Any) -> None:
    def rewritten() -> None:
        with Listening():
            try:
                with Listening():
                    ring()
            except LateError as error:
                error.args = ("rewritten",)

    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(LateError) as raised:
        rewritten()
    assert raised.value.args == ()
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.parametrize(
    ("kind", "expected"), [(KeyError, LateError), (KeyboardInterrupt, KeyboardInterrupt)]
)
def test_but_for_an_interrupt_it_goes_before_what_came_of_it(
    ring: Any, kind: type[BaseException], expected: type[BaseException]
) -> None:
    def dropped() -> None:
        with Listening():
            with contextlib.suppress(LateError):
                ring()
            raise kind

    with pytest.raises(expected):
        dropped()
    with pytest.raises(kind), Listening():
        raise kind


def test_a_handler_that_is_set_within_a_block_stays() -> None:
    former = signal.signal(signal.SIGALRM, late)
    try:
        with Listening():
            assert signal.getsignal(signal.SIGALRM) is not late
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGALRM, former)


def test_another_thread_does_not_listen(ring: Any) -> None:
    before, seen = signal.getsignal(signal.SIGALRM), []

    def elsewhere() -> None:
        with Listening():
            seen.append(signal.getsignal(signal.SIGALRM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize("place", ["supports", "lower", "first", "later"])
@pytest.mark.parametrize("dropped", [False, True])
def test_an_engine_is_not_blamed(ring: Any, scripted: Any, place: str, dropped: bool) -> None:
    armed = [True]

    def maybe() -> None:
        if not armed:
            return
        armed.clear()
        if not dropped:
            ring()
        try:
            ring()
        except LateError:
            message = "The engine has its own opinion."
            raise RuntimeError(message) from None

    scripted.lower_error = lambda _: maybe() if place == "lower" else None
    number = {"first": 1, "later": 3}.get(place)
    scripted.run_error = lambda run: maybe() if run == number else None
    inner = scripted.supports
    scripted.supports = lambda node: (place == "supports" and maybe()) or inner(node)
    compiled = dynamo_ext.optimize(scripted)(fn)
    with pytest.raises(LateError) as raised:
        [compiled(X) for _ in range(3)]
    assert raised.value.args == ()
    assert not compiled.report().fallbacks
    torch.testing.assert_close(compiled(X), fn(X))
    assert not compiled.report().fallbacks


@pytest.mark.parametrize("place", ["compile", "first", "later"])
def test_a_users_compiler_is_not_blamed(ring: Any, place: str) -> None:
    armed = [place]

    def compiler(graph: Any, inputs: Any) -> Any:
        calls = []

        def run(*args: Any) -> Any:
            calls.append(1)
            if armed == [("first", "later")[len(calls) == 2]]:
                armed.clear()
                ring()
            return graph.forward(*args)

        if armed == ["compile"]:
            armed.clear()
            ring()
        return run

    compiled = dynamo_ext.optimize(compiler)(fn)
    with pytest.raises(LateError):
        [compiled(X) for _ in range(2)]
    torch.testing.assert_close(compiled(X), fn(X))
    assert not compiled.report().fallbacks


def test_a_captured_frame_is_not_blamed(ring: Any) -> None:
    library = torch.library.Library("dx_late", "FRAGMENT")
    library.define("plus(Tensor x) -> Tensor")
    library.impl("plus", lambda x: x + 1, "CompositeExplicitAutograd")
    armed = [True]

    def fake(x: torch.Tensor) -> torch.Tensor:
        if armed:
            armed.clear()
            ring()
        return torch.empty_like(x)

    torch.library.register_fake("dx_late::plus", fake, lib=library)
    compiled = dynamo_ext.optimize("eager")(lambda x: torch.ops.dx_late.plus(x) * 2)
    try:
        with pytest.raises(LateError) as raised:
            compiled(X)
        assert raised.value.args == ()
        torch.testing.assert_close(compiled(X), (X + 1) * 2)
        report = compiled.report()
    finally:
        library._destroy()
    assert not report.fallbacks
    assert len(report.graphs) == 1


def test_a_race_is_not_won_by_a_time_limit(ring: Any) -> None:
    contenders = [TimedCallable("eager", lambda: None), TimedCallable("other", ring)]
    with pytest.raises(LateError):
        race(contenders, Plan(budget=0.1))
    switch = MultiBackendGraph(0, torch.fx.symbolic_trace(fn), {"eager": lambda x: (fn(x),)})
    with pytest.raises(LateError):
        compile_into(switch, {"other": lambda *_: ring()}, [X])
    switch.compiled["other"] = lambda x: (ring(), fn(x))[1:]
    with pytest.raises(LateError):
        graph_race.run_race(switch, [X], 0.1)


def test_a_warning_of_torchs_that_is_an_error_is_its_own_failure() -> None:
    x = torch.ones(3, requires_grad=True) * 2
    compiled = dynamo_ext.optimize("eager")(fn)
    torch.testing.assert_close(compiled(x), fn(x))
    (fallback,) = compiled.report().fallbacks
    assert fallback.stage == "capture"


def test_leaving_the_process_is_no_failure() -> None:
    former = signal.signal(signal.SIGALRM, lambda *_: sys.exit(3))

    def compiler(graph: Any, inputs: Any) -> Any:
        signal.raise_signal(signal.SIGALRM)
        return graph.forward

    try:
        with pytest.raises(SystemExit):
            dynamo_ext.optimize(compiler)(fn)(X)
    finally:
        signal.signal(signal.SIGALRM, former)
