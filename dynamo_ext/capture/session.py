"""``optimize`` and ``run`` without a notebook: context managers, decorators, wrapped modules."""

from __future__ import annotations

import functools
import pickle
import sys
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch

from dynamo_ext.backends import registry
from dynamo_ext.backends.users import is_backend
from dynamo_ext.capture import run_log, torch_private, with_block
from dynamo_ext.capture.report_builder import RunFacts, build_report
from dynamo_ext.capture.standing import EVERYWHERE
from dynamo_ext.capture.tracing import Tracer, optimizing, reusing
from dynamo_ext.errors import NoReportError, OptionError

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterable, Mapping

    from dynamo_ext.backends.base import Backend
    from dynamo_ext.backends.compilers import Compiler
    from dynamo_ext.capture.recorded_compiler import RecordedCompiler
    from dynamo_ext.capture.run_log import Watcher
    from dynamo_ext.records import Mode, Report

_last: Session | None = None
_last_report: Report | None = None
_last_compiler: RecordedCompiler | None = None


def remember_report(report: Report) -> None:
    """Make ``report`` what ``last_report`` gives (a cell has just run)."""
    global _last, _last_report
    _last, _last_report = None, report


def last_report() -> Report:
    """The report of whatever ran last: a cell, a function, a module or a ``with`` block.

    Raises
    ------
    NoReportError
        When nothing has run yet.
    """
    if _last is not None:
        return _last.report
    if _last_report is None:
        msg = "Nothing has run under dynamo_ext yet."
        raise NoReportError(msg, "Run a %%dynamo cell or dynamo_ext.optimize(...) first.")
    return _last_report


def last_compiler() -> RecordedCompiler | None:
    """The compiler that ``run`` reuses where nothing else says which."""
    return _last_compiler


def remember_compiler(compiler: RecordedCompiler | None) -> None:
    """Make ``compiler`` what a later ``run`` reuses."""
    global _last_compiler  # noqa: PLW0603
    if compiler is not None:
        _last_compiler = compiler


def versions() -> tuple[tuple[str, str], ...]:
    """The versions that a report was made with."""
    import platform

    return (("python", platform.python_version()), ("torch", str(torch.__version__)))


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
    Copied or pickled, a session has the same settings and nothing recorded; so has that of a
    copied module.
    """

    def __init__(
        self,
        make_tracer: Callable[[], Tracer],
        mode: Mode,
        title: str = "",
        watcher: Watcher | None = None,
    ) -> None:
        self._make_tracer = make_tracer
        self._mode: Mode = mode
        self._title = title or f"dynamo_ext.{mode}"
        self._tracer: Tracer | None = None
        self._run = run_log.Run(watcher=watcher)
        self._seconds = 0.0
        self._open: list[tuple[Any, ...]] = []
        self._interrupted = False
        self._roots: dict[int, weakref.ref[types.CodeType]] = {}
        self._kept = 0

    def watched_by(self, watcher: Watcher) -> Session:
        """A session like this one, of whose graph calls ``watcher`` hears."""
        return Session(self._make_tracer, self._mode, self._title, watcher)

    def __deepcopy__(self, memo: dict[int, Any]) -> Session:
        return Session(self._make_tracer, self._mode, self._title)

    def __reduce__(self) -> tuple[Any, ...]:
        return Session, (self._make_tracer, self._mode, self._title)

    @property
    def report(self) -> Report:
        """The record of every call so far."""
        return self._report()

    def _report(self) -> Report:
        facts = RunFacts(
            mode=self._mode,
            backend=self._backend,
            title=self._title,
            cell=None,
            seconds=self._seconds,
            interrupted=self._interrupted,
            versions=versions(),
        )
        called = [code for ref in self._roots.values() if (code := ref()) is not None]
        standing = EVERYWHERE.reached(self._run, self._backend, called) if self._seconds else ()
        return build_report(self._run, facts, standing)

    @property
    def _backend(self) -> str:
        tracer = self._tracer
        return tracer.compiler.name if tracer and tracer.compiler else ""

    def _keep(self) -> None:
        """Remember what Dynamo will not look at again, for others that call it."""
        if len(self._run.compiled) != self._kept and self._mode == "optimize":
            self._kept = len(self._run.compiled)
            EVERYWHERE.keep(self._run, self._backend)

    def _calls(self, codes: Iterable[types.CodeType]) -> None:
        """Remember what is called first: Dynamo does not tell of what it gave up before."""
        for code in codes:
            self._roots.setdefault(id(code), weakref.ref(code))

    def _ready(self) -> Tracer:
        global _last  # noqa: PLW0603
        if self._tracer is None:
            self._tracer = self._make_tracer()
            if self._mode == "optimize":
                remember_compiler(self._tracer.compiler)
        _last = self
        return self._tracer

    def __enter__(self) -> Self:
        tracer = self._ready()
        surroundings, recording = tracer.surroundings(), run_log.Recording(self._run)
        surroundings.__enter__()
        recording.__enter__()
        started = time.perf_counter()
        prior = torch_private.install(tracer.callback)
        caller = sys._getframe(1)  # noqa: SLF001 - CPython's own name for it
        self._open.append((prior, surroundings, recording, started, (caller, caller.f_lasti)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        prior, surroundings, recording, started, (caller, entered) = self._open.pop()
        torch_private.uninstall(prior)
        self._seconds += time.perf_counter() - started
        self._keep()
        if EVERYWHERE and error is None and caller is sys._getframe(1):  # noqa: SLF001
            self._calls(with_block.called_between(caller, entered, caller.f_lasti))
        self._interrupted = self._interrupted or isinstance(error, KeyboardInterrupt)
        try:
            recording.__exit__(kind, error, traceback)
        finally:
            surroundings.__exit__(kind, error, traceback)

    def __call__(self, target: Any) -> Any:
        """Wrap a function or a module; the wrapper has a ``report()`` of its own."""
        if torch_private.is_module(target):
            name, watcher = type(target).__name__, self._run.watcher
            session = Session(self._make_tracer, self._mode, name, watcher)
            return torch_private.optimized_module(target, session._wrap, session._report)
        if not callable(target):
            msg = f"A {type(target).__name__} cannot be wrapped: it cannot be called."
            raise OptionError(
                msg, "Pass a function or a module, or use the session in a with block."
            )
        name = getattr(target, "__qualname__", type(target).__name__)
        session = Session(self._make_tracer, self._mode, name, self._run.watcher)
        wrapper = session._wrap(target)
        wrapper.report = lambda: session.report
        return wrapper

    def _wrap(self, function: Callable[..., Any]) -> Any:
        inner = torch_private.traceable(function)
        self._calls([inner.__code__])
        clock = time.perf_counter

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            tracer = self._ready()
            started = clock()
            with run_log.Recording(self._run), tracer.surroundings():
                try:
                    return torch_private.call_under(tracer.callback, inner, *args, **kwargs)
                except KeyboardInterrupt:
                    self._interrupted = True
                    raise
                finally:
                    self._seconds += clock() - started
                    self._keep()

        return wrapper


@dataclass(frozen=True)
class _Optimizing:
    """What ``optimize`` was asked for; called, the tracer that does it.

    Pickled, it is the request alone, which is settled anew where it is loaded: another process
    has compilers of its own, and may have other engines.
    """

    compiler: Compiler
    backend: str | Backend | Callable[..., Any]
    dynamic: bool | None
    fullgraph: bool
    options: Mapping[str, Any]
    strict: bool

    def __call__(self) -> Tracer:
        name = getattr(self.compiler, "name", str(self.backend))
        return optimizing(self.compiler, name, dynamic=self.dynamic, fullgraph=self.fullgraph)

    def __reduce__(self) -> tuple[Any, ...]:
        if not isinstance(self.backend, str):
            _must_pickle(self.backend, self.compiler.name)
        asked = (self.backend, self.dynamic, self.fullgraph, self.options, self.strict)
        return _optimizing, asked


def _must_pickle(backend: Backend | Callable[..., Any], name: str) -> None:
    try:
        pickle.dumps(backend)
    except Exception as error:
        msg = f"The backend {name} cannot be pickled, nor can a module that was optimized with it."
        remedy = "Define it at the top of a module of yours, or give a backend by its name."
        raise OptionError(msg, remedy) from error


def _optimizing(
    backend: str | Backend | Callable[..., Any],
    dynamic: bool | None,  # noqa: FBT001 - pickle passes them by position
    fullgraph: bool,  # noqa: FBT001
    options: Mapping[str, Any] | None,
    strict: bool,  # noqa: FBT001
) -> _Optimizing:
    compiler = registry.compiler(backend, options, strict=strict)
    # A copy: the caller may change theirs, and not every mapping can be pickled.
    return _Optimizing(compiler, backend, dynamic, fullgraph, dict(options or {}), strict)


def _reusing() -> Tracer:
    return reusing(_last_compiler)


def optimize(
    backend: str | Backend | Callable[..., Any] = "inductor",
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    options: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> Session:
    """Capture and compile what has not been seen, reuse what has.

    Parameters
    ----------
    backend
        A name of ours, of your own (``register_backend``) or of torch's; a backend object (see
        ``dynamo_ext.Backend``); or a compiler function
        ``(torch.fx.GraphModule, example_inputs) -> callable``.
    dynamic
        ``True`` for symbolic sizes from the start, ``False`` for none, ``None`` for torch's way:
        a size that changes becomes symbolic.
    fullgraph
        Raise on a graph break instead of splitting.
    options
        The backend's own options (``%dynamo backends NAME`` lists them).
    strict
        Raise where the backend is not available, instead of running eagerly.

    Raises
    ------
    UnknownBackendError, InvalidBackendError, OptionError
        At once, before anything runs.
    BackendUnavailableError
        With ``strict``.
    """
    if not (isinstance(backend, str) or callable(backend) or is_backend(backend)):
        msg = f"A {type(backend).__name__} is no backend."
        remedy = (
            "Give a name, a dynamo_ext.Backend, or a function "
            "(GraphModule, example_inputs) -> callable."
        )
        raise OptionError(msg, remedy)
    return Session(_optimizing(backend, dynamic, fullgraph, options, strict), "optimize")


def run() -> Session:
    """Reuse only: what was compiled before is used, and nothing is compiled, ever.

    A frame with a new shape (or any guard that fails) runs eagerly and is counted in the report.
    """
    return Session(_reusing, "run")
