"""Sessions: code under Dynamo, as a context, a decorator or a wrapped module; the last report."""

from __future__ import annotations

import contextlib
import functools
import platform
import sys
import time
import types
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, Self

import torch
from torch.utils.weak import WeakIdKeyDictionary

from dynamo_ext.capture import targets
from dynamo_ext.capture.listen import eager_frames, run_log, with_block
from dynamo_ext.capture.listen.graph_recorder import RecordedCompiler
from dynamo_ext.capture.listen.run_log import OnGraphCall
from dynamo_ext.capture.listen.tracer import Tracer, reusing
from dynamo_ext.capture.report.builder import build_report
from dynamo_ext.capture.torch_private import frame_eval, wrapping
from dynamo_ext.errors import NoReportError
from dynamo_ext.records.report import Mode, Report
from dynamo_ext.torch_private import version

_last: Callable[[], Report] | None = None
_last_compiler: RecordedCompiler | None = None


def remember_report(report: Report) -> None:
    """Make ``report`` what ``last_report`` gives (a cell has just run)."""
    global _last  # noqa: PLW0603
    _last = lambda: report  # noqa: E731


def last_report() -> Report:
    """The report of whatever ran last; raises ``NoReportError`` when nothing has."""
    if _last is None:
        msg = "Nothing has run under dynamo_ext yet."
        raise NoReportError(msg, "Run a %%dynamo cell or dynamo_ext.optimize(...) first.")
    return _last()


def last_compiler() -> RecordedCompiler | None:
    """The compiler that ``run`` reuses where nothing else says which."""
    return _last_compiler


def remember_compiler(compiler: RecordedCompiler | None) -> None:
    """Make ``compiler`` what a later ``run`` reuses."""
    global _last_compiler  # noqa: PLW0603
    if compiler is not None:
        _last_compiler = compiler


def versions() -> tuple[tuple[str, str], ...]:
    """The versions that a report was made with, and ``without``: what is off on this torch."""
    lost = ", ".join(version.lost_features())
    found = (("python", platform.python_version()), ("torch", str(torch.__version__)))
    return (*found, ("without", lost)) if lost else found


class Session:
    """Code run under Dynamo, and the record of it: what ``optimize`` and ``run`` return.

    Three ways to use one::

        with dynamo_ext.optimize("onnxrt") as session:   # what the block *calls* is captured
            y = model(x)
        session.report               # (a module of torch's own, called right in it, is not)

        fast = dynamo_ext.optimize("onnxrt")(function)   # a function, or as a decorator
        fast.report()

        model = dynamo_ext.optimize("onnxrt")(model)     # a module
        model.report()

    The report covers everything since the session, function or module was made. Observing costs
    two clock readings per graph call, and two hooks where a compiled backward pass may follow.
    Copied or pickled, a wrapped module is the module that was wrapped.
    """

    def __init__(
        self,
        make_tracer: Callable[..., Tracer],
        mode: Mode,
        title: str = "",
        on_graph_call: OnGraphCall | None = None,
    ) -> None:
        self._make_tracer = make_tracer
        self._mode: Mode = mode
        self._title = title or f"dynamo_ext.{mode}"
        self._tracer: Tracer | None = None
        self._run = run_log.RunLog(on_graph_call=on_graph_call)
        self._seconds = 0.0
        self._open: list[tuple[Any, ...]] = []
        self._interrupted = False
        self._roots: MutableMapping[types.CodeType, None] = WeakIdKeyDictionary()
        self._kept = 0

    def explaining(self, on_graph_call: OnGraphCall) -> Session:
        """One like this that reuses nothing and leaves nothing, whatever ran before.

        ``on_graph_call`` gets its graph calls.
        """
        made = functools.partial(self._make_tracer, alone=True)
        return Session(made, "explain", self._title, on_graph_call)

    def __reduce__(self) -> tuple[Any, ...]:
        # Functions that are wrapped go to other processes by value, and have their session in them.
        return Session, (self._make_tracer, self._mode, self._title)

    @property
    def report(self) -> Report:
        """The record of every call so far."""
        facts = Report(
            mode=self._mode,
            backend=self._backend,
            title=self._title,
            cell=None,
            seconds=self._seconds,
            compile_seconds=self._run.compile_seconds,
            interrupted=self._interrupted,
            versions=versions(),
        )
        standing = eager_frames.reachable_from(self._run, self._backend, self._roots)
        known = self._seconds and self._mode != "explain"
        return build_report(self._run, facts, standing if known else ())

    @property
    def _backend(self) -> str:
        tracer = self._tracer
        return tracer.compiler.name if tracer and tracer.compiler else ""

    def _keep(self) -> None:
        """Remember what Dynamo will not look at again, for others that call it."""
        if len(self._run.compiled) != self._kept and self._mode == "optimize":
            self._kept = len(self._run.compiled)
            eager_frames.update(self._run, self._backend)

    def _calls(self, codes: Iterable[types.CodeType]) -> None:
        """Remember what is called first: Dynamo does not report what it gave up before."""
        self._roots.update((code, None) for code in codes)

    def _ready(self) -> Tracer:
        global _last  # noqa: PLW0603
        if self._tracer is None:
            self._tracer = self._make_tracer()
            if self._mode == "optimize":
                remember_compiler(self._tracer.compiler)
        _last = lambda: self.report  # noqa: E731
        return self._tracer

    def __enter__(self) -> Self:
        tracer = self._ready()
        opened = contextlib.ExitStack()
        opened.enter_context(tracer.surroundings())
        opened.enter_context(run_log.Recording(self._run))
        started = time.perf_counter()
        prior = frame_eval.install(tracer.callback)
        caller = sys._getframe(1)  # noqa: SLF001 - CPython's own name for it
        self._open.append((prior, opened, started, (caller, caller.f_lasti)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        prior, opened, started, (caller, entered) = self._open.pop()
        frame_eval.uninstall(prior)
        self._seconds += time.perf_counter() - started
        self._keep()
        if eager_frames.are_known() and error is None and caller is sys._getframe(1):  # noqa: SLF001
            self._calls(with_block.functions_called_in(caller, entered, caller.f_lasti))
        self._interrupted = self._interrupted or isinstance(error, KeyboardInterrupt)
        opened.__exit__(kind, error, traceback)

    def __call__(self, target: Any) -> Any:
        """Wrap a function or a module; the wrapper has a ``report()`` of its own."""
        targets.check(target, "wrapped")
        is_module = isinstance(target, torch.nn.Module)
        kind = type(target).__name__
        name = kind if is_module else getattr(target, "__qualname__", kind)
        session = Session(self._make_tracer, self._mode, name, self._run.on_graph_call)
        if is_module:
            return wrapping.optimized_module(target, session._wrap, lambda: session.report)
        wrapper = session._wrap(target)
        wrapper.report = lambda: session.report
        return wrapper

    def _wrap(self, function: Callable[..., Any]) -> Any:
        inner = wrapping.traceable(function)
        self._calls([inner.__code__])
        clock = time.perf_counter

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            tracer = self._ready()
            started = clock()
            with run_log.Recording(self._run), tracer.surroundings():
                try:
                    return frame_eval.call_under(tracer.callback, inner, *args, **kwargs)
                except KeyboardInterrupt:
                    self._interrupted = True
                    raise
                finally:
                    self._seconds += clock() - started
                    self._keep()

        return wrapper


def reuse_last() -> Tracer:
    """A tracer that reuses what was compiled last, and compiles nothing."""
    return reusing(_last_compiler)
