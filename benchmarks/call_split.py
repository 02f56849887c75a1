"""One tiny function under many compilers, and its call taken apart.

Each part is found by leaving something out: a compiler that returns kept results costs Dynamo's
guards alone; a backend of ours whose engine returns kept results adds our dispatch and the watch on
frozen weights.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynamo_ext.backends import registry
from dynamo_ext.backends.base import Backend, CompiledFn, Lowered, LoweringRequest
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.options import resolve
from dynamo_ext.errors import FallbackWarning

Call = Callable[[], object]


@dataclass
class Candidates:
    """What is timed together: calls without arguments by name, and why others are missing."""

    calls: dict[str, Call] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


class Opened:
    """A backend that keeps what it lowered, or puts an engine that does nothing in its place."""

    def __init__(self, backend: Backend, *, empty: bool) -> None:
        self._backend = backend
        self._empty = empty
        self.run: CompiledFn | None = None
        self.args: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def program_versions(self, _: object) -> str:
        """None: a program from disk would come another way."""
        return ""

    def lower_for(self, request: LoweringRequest) -> Lowered:
        """Lower as the backend does, behind one more call."""
        run = self._backend.lower_for(request).run
        self.run = run
        kept: list[Any] = []

        def once(*args: Any) -> Any:
            if not kept:
                self.args = args
                kept.append(run(*args))
            return kept[0]

        def always(*args: Any) -> Any:
            self.args = args
            return run(*args)

        return Lowered(once if self._empty else always)


def candidates(function: types.FunctionType, x: Any, backends: Sequence[str]) -> Candidates:
    """Compile a function of one tensor every way there is.

    Parameters
    ----------
    function
        Called under ``no_grad`` by whoever times it.
    x
        Its argument.
    backends
        Names of ours.

    Returns
    -------
    Candidates
        ``plain``, ``torch eager``, ``torch aot_eager``, ``guards``, and for each backend its
        name; ``NAME empty`` with an engine that does nothing, ``NAME run`` for the lowered
        function alone and ``NAME bare`` for the engine's own call, where they can be had.
    """
    found = Candidates()
    calls = found.calls
    calls["plain"] = lambda: function(x)
    for name in ("eager", "aot_eager", "inductor"):
        if name == "inductor" and name not in backends:
            continue
        calls[f"torch {name}"] = compiled(function, x, name)
    calls["guards"] = compiled(function, x, _kept)
    for name in backends:
        try:
            _add(found, name, function, x)
        except Exception as error:  # noqa: BLE001 - the table says which and why
            found.missing[name] = (str(error).strip().splitlines() or [type(error).__name__])[0]
            for each in [key for key in calls if key.split(" ")[0] == name]:
                del calls[each]
    return found


def _add(found: Candidates, name: str, function: types.FunctionType, x: Any) -> None:
    backend = registry.get(name)
    answer = registry.probe(backend)
    if not answer.available:
        found.missing[name] = answer.reason
        return
    options = resolve(name, backend.options, None)
    found.calls[name] = compiled(function, x, Compiler(backend, options))
    if backend.whole_graph:
        return
    opened: Any = Opened(backend, empty=True)
    found.calls[f"{name} empty"] = compiled(function, x, Compiler(opened, options))
    opened = Opened(backend, empty=False)
    compiled(function, x, Compiler(opened, options))
    run, args = opened.run, opened.args
    found.calls[f"{name} run"] = lambda: run(*args)
    # An engine of its own: a bare call writes where its own results lie.
    opened = Opened(backend, empty=False)
    compiled(function, x, Compiler(opened, options))
    engine = bare(opened.run, opened.args)
    if engine is not None:
        found.calls[f"{name} bare"] = engine


def compiled(function: types.FunctionType, x: Any, backend: Any) -> Call:
    """A compiled copy of a function, warm; a copy, since Dynamo keeps one list for each code.

    Raises
    ------
    FallbackWarning
        Where anything ran eagerly that was meant for the backend.
    """
    import torch

    code = function.__code__.replace(co_name=function.__name__)
    copy = types.FunctionType(
        code, function.__globals__, function.__name__, closure=function.__closure__
    )
    made: Any = torch.compile(copy, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for _ in range(5):
            made(x)
    return lambda: made(x)


def bare(run: Any, args: Sequence[Any]) -> Call | None:
    """The engine's own call on tensors that are bound once; ``None`` where it is not known."""
    import torch

    session: Any = getattr(run, "__self__", None)
    engine = type(session).__module__.removeprefix("dynamo_ext.backends.engines.")
    if isinstance(run, torch._C.ScriptFunction):  # noqa: SLF001 - it has no public name
        # Nothing is bound: the interpreter takes torch's tensors as they are.
        return lambda: run(*args)
    if engine == "onnxrt.session":
        feeds = {
            name: take(value)
            for name, take, value in zip(session._inputs, session._takes, args, strict=True)  # noqa: SLF001
        }
        plain, outputs = session._plain, session._outputs  # noqa: SLF001
        return lambda: plain.run_with_ort_values(feeds, outputs, None)
    if engine == "openvino.session":
        # The request keeps addresses alone, so what lies there is kept here.
        session.run(*args)
        request, infer = session._request, session._infer  # noqa: SLF001
        # Small results are bound already, to a place of the session's.
        kept = [session._makes[position]() for position, _ in session._written]  # noqa: SLF001
        for (position, give), place in zip(session._written, kept, strict=True):  # noqa: SLF001
            request.set_output_tensor(position, give(place))
        return lambda: (infer(), args, kept, session)
    return None


def _kept(graph: Any, inputs: Any) -> Callable[..., Any]:
    del inputs
    results: list[Any] = []

    def call(*args: Any) -> Any:
        if not results:
            results.append(graph(*args))
        return results[0]

    return call
