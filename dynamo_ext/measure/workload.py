"""What is measured: a function or a module with its arguments, or a cell in its namespace.

A workload can run plainly or under Dynamo, says what came of it, and puts everything that it
changed back. It can also be sent to another process, and run there.
"""

import builtins
import contextlib
import dis
import functools
import io
import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch

from dynamo_ext.backends.calibration import calibrating
from dynamo_ext.capture.cells.block_runner import Stepper
from dynamo_ext.capture.cells.program import CellProgram
from dynamo_ext.capture.cells.runner import run_plainly, run_traced
from dynamo_ext.capture.code.dynamo_globals import HiddenNames
from dynamo_ext.capture.code.function_code import codes_within
from dynamo_ext.capture.code.tensor_reachability import names_read
from dynamo_ext.capture.listen.tracer import Tracer
from dynamo_ext.capture.torch_private import code_cache, regions, wrapping
from dynamo_ext.errors import OptionError
from dynamo_ext.measure import accuracy
from dynamo_ext.measure.state.process_state import Surroundings
from dynamo_ext.measure.state.snapshot import Snapshot
from dynamo_ext.records.common import CodeBlock

NOT_SENT = "Compare it in this process (without isolate), or create it inside the compared code."
"""The remedy where something cannot be sent to another process."""

_NEEDS = frozenset(
    {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS", "DELETE_NAME", "DELETE_GLOBAL"}
)
_READS_ALL = frozenset({"eval", "exec", "globals", "locals", "vars", "dir"})
_SHELL = frozenset({"In", "Out", "exit", "quit", "open", "get_ipython"})


class Workload(ABC):
    """Code that can be run again and again from the same state.

    ``roots`` are what the code can reach, by name. A ``repeatable`` one may run several times
    without being put back in between. ``names`` is where Dynamo's own names wait while nothing
    compiled runs. Where it is sent to another process, functions of ``namespace`` go by value, and
    ``left_out`` are the names that cannot be sent, with the reason.
    """

    surroundings: Surroundings
    snapshot: Snapshot
    names: HiddenNames | None = None
    cell: CodeBlock | None = None

    def __init__(
        self, title: str, roots: dict[str, Any], namespace: dict[str, Any], *, train: bool
    ) -> None:
        self.title = title
        self.roots = roots
        self.namespace = namespace
        self._train = train
        self.repeatable = False
        self.left_out: dict[str, str] = {}

    def begin(self) -> None:
        """Note what each run is to start from."""
        self.surroundings = Surroundings()
        self.snapshot = Snapshot(self.roots)

    @abstractmethod
    def leave_out(self, why_not: Callable[[Any], str]) -> None:
        """Do without what cannot be sent; raises ``OptionError`` where that cannot be done without.

        ``why_not`` says why a value cannot be sent, or nothing.
        """

    @abstractmethod
    def eager_call(self) -> Callable[[], object]:
        """The code as it is."""

    @abstractmethod
    def compiled_call(self, tracer: Tracer, region: int) -> Callable[[], object]:
        """The code under Dynamo, its compiled code in a region of its own."""

    @abstractmethod
    def results(self) -> accuracy.Results:
        """Copies of what the last call gave, and of what it changed in place."""

    def restore(self, *, thorough: bool = False) -> bool:
        """Put back what the last call changed; whether anything had."""
        self.surroundings.restore_random()
        self.surroundings.close_figures()
        return self.snapshot.restore(thorough=thorough)

    @contextlib.contextmanager
    def on(self, given: Any) -> Iterator[None]:
        """Run on other inputs: a function's arguments, or values by name in a cell's namespace."""
        self.restore(thorough=True)
        snapshot, self.snapshot = self.snapshot, Snapshot({**self.roots, "given": given})
        former = self._exchange(given)
        try:
            yield
        finally:
            self.restore(thorough=True)
            self._exchange(former)
            self.snapshot = snapshot

    def calibrate(self, call: Callable[[], object], inputs: Sequence[Any]) -> None:
        """Make a compiled call on other inputs, and on its own, before int8 is compiled.

        Everything is as before when it returns; raises what the code raises.
        """
        try:
            with calibrating():
                for given in inputs:
                    with self.on(given):
                        call()
                # Its own last: where sizes differ, they run the newest graph, as they will later.
                call()
        finally:
            self.restore(thorough=True)

    @abstractmethod
    def _exchange(self, given: Any) -> Any:
        """Put other inputs in the place of those that there are, which are returned."""

    def suppress_output(self) -> contextlib.AbstractContextManager[None]:
        """Keep what the code prints and displays from being seen."""
        return _nothing_printed()

    def close(self) -> None:
        """Put everything back for good."""
        self.restore(thorough=True)
        self.surroundings.restore()


class FunctionWorkload(Workload):
    """A function or module and its arguments; modules keep their mode (``train()``, ``eval()``).

    With ``train`` it goes on to the gradients: backward from the sum of every floating result that
    requires one; they are results too.
    """

    def __init__(
        self,
        target: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        train: bool = False,
    ) -> None:
        self._target = target
        self._args = tuple(args)
        self._kwargs = dict(kwargs or {})
        self._value: Any = None
        roots = {"target": target, "args": self._args, "kwargs": self._kwargs}
        title = str(getattr(target, "__qualname__", type(target).__name__))
        super().__init__(title, roots, vars(sys.modules["__main__"]), train=train)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "namespace": {}}

    def leave_out(self, why_not: Callable[[Any], str]) -> None:
        """Raise ``OptionError``, which names what cannot be sent: the code needs all of it."""
        parts = {"The code": self._target}
        parts |= {f"args[{index}]": value for index, value in enumerate(self._args)}
        parts |= {f"The argument {name}": value for name, value in self._kwargs.items()}
        for name, value in parts.items():
            if reason := why_not(value):
                message = f"{name} cannot be sent to another process ({reason})."
                raise OptionError(message, NOT_SENT)

    def instead(self, function: Callable[..., Any]) -> Callable[[], object]:
        """Another function on the same arguments."""

        def run() -> None:
            self._value = function(*self._args, **self._kwargs)
            if self._train:
                backward_from(self._value)

        return run

    def eager_call(self) -> Callable[[], object]:
        """The function as it is."""
        return self.instead(self._target)

    def compiled_call(self, tracer: Tracer, region: int) -> Callable[[], object]:
        """The function under Dynamo; a module within what a user's call of it goes through."""

        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            inner = wrapping.traceable(function)
            return functools.partial(regions.call_in_region, region, tracer.callback, inner)

        if isinstance(self._target, torch.nn.Module):
            return self.instead(wrapping.wrapped_module(self._target, wrap))
        return self.instead(wrap(self._target))

    def _exchange(self, given: Sequence[Any]) -> tuple[Any, ...]:
        former, self._args = self._args, tuple(given)
        return former

    def results(self) -> accuracy.Results:
        """What the function returned, and changed in place (weights, gradients)."""
        return accuracy.collect({"result": self._value, **self.snapshot.changed()})

    def restore(self, *, thorough: bool = False) -> bool:
        """Put back what the call changed in its arguments and what they reach."""
        self._value = None
        return super().restore(thorough=thorough)


class CellWorkload(Workload):
    """A cell in a notebook's namespace.

    The code objects of ``program`` must be this comparison's own: compiled code hangs off them. The
    cell runs in the user's namespace, since the functions it calls read it; after every run it
    holds what it held before, and nothing else. ``names`` are Dynamo's own names in it. ``silence``
    is the front end's way to swallow displays, beside what goes to stdout and stderr.

    It is sent as its code, so that the shell's own transformations of it go along.
    """

    def __init__(  # noqa: PLR0913 - what one comparison needs, by keyword
        self,
        program: CellProgram,
        namespace: dict[str, Any],
        names: HiddenNames,
        *,
        title: str,
        train: bool = False,
        silence: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    ) -> None:
        self._program = program
        self.names: HiddenNames = names
        self._silence = silence
        self._stored = program.stored_names
        self._shown: Any = None
        super().__init__(title, {}, namespace, train=train)

    def begin(self) -> None:
        """Note what each run is to start from, the namespace among it."""
        space = self.namespace
        self._before = dict(space)
        read = {name for code in self._program.statement_codes for name in names_read(code)}
        self._read = sorted(read & space.keys())
        self.roots = {name: space[name] for name in self._read}
        super().begin()

    @property
    def parts(self) -> tuple[CellProgram, dict[str, Any], str, bool]:
        """What is sent: the code, the values that it reads by their names, title and ``train``."""
        return self._program, self._values, self.title, self._train

    @functools.cached_property
    def _values(self) -> dict[str, Any]:
        """By name what the cell reads of its namespace; what functions read comes with them."""
        space, read = self.namespace, set(_names_needed(self._program))
        if read & _READS_ALL:
            read |= {name for name in space if not name.startswith("_")} - _SHELL
        values = {name: space[name] for name in sorted(read) if name in space}
        # The shell gives cells names through the builtins: `display`.
        for name in sorted(read - values.keys()):
            value = getattr(builtins, name, None)
            if getattr(value, "__module__", "builtins") not in {"builtins", "_io", "_sitebuiltins"}:
                values[name] = value
        return values

    def leave_out(self, why_not: Callable[[Any], str]) -> None:
        """Do without the values that cannot be sent."""
        lost = {name: why for name, value in self._values.items() if (why := why_not(value))}
        self.left_out |= lost
        self._values = {n: value for n, value in self._values.items() if n not in lost}

    def eager_call(self) -> Callable[[], object]:
        """The cell as a plain cell."""

        def run() -> None:
            run_plainly(self._program, self.namespace)
            self._finish()

        return run

    def compiled_call(self, tracer: Tracer, region: int | None) -> Callable[[], object]:
        """The cell under Dynamo; without a ``region``, its compiled code serves the cell itself."""

        def run() -> None:
            run_traced(self._program, Stepper(tracer, self.namespace, self.names, region))
            self._finish()

        return run

    def _finish(self) -> None:
        if self._train:
            backward_from(self._named())

    def _named(self) -> dict[str, Any]:
        """What the cell assigned or displayed."""
        space = self.namespace
        found = {name: space[name] for name in sorted(self._stored) if name in space}
        if self._shown is not None:
            found["Out"] = self._shown
        return found

    def _exchange(self, given: Mapping[str, Any]) -> dict[str, Any]:
        former = {name: self._before[name] for name in given}
        self._before.update(given)
        self.namespace.update(given)
        return former

    def results(self) -> accuracy.Results:
        """What the cell assigned, displayed, and changed in place (weights, gradients)."""
        return accuracy.collect({**self.snapshot.changed(), **self._named()})

    def restore(self, *, thorough: bool = False) -> bool:
        """Put the namespace and what it reaches back; whether a second run would have noticed."""
        self._shown = None
        space, before = self.namespace, self._before
        for name in [name for name in space if name not in before]:
            del space[name]
        noticed = False
        for name, value in before.items():
            if space.get(name, space) is not value:
                space[name] = value
                noticed = noticed or name in self._read
        return super().restore(thorough=thorough) or noticed

    @contextlib.contextmanager
    def suppress_output(self) -> Iterator[None]:
        """Take what the cell prints and displays."""
        keep = functools.partial(setattr, self, "_shown")
        with self._silence(), _nothing_printed(), mock.patch.object(sys, "displayhook", keep):
            yield

    def close(self) -> None:
        """Put everything back for good, and let go of the compiled cell."""
        super().close()
        for code in self._program.codes:
            code_cache.forget_code(code)


def _names_needed(program: CellProgram) -> Iterator[str]:
    """The names that a cell reads from its namespace or deletes there; attributes are none."""
    for code in itertools.chain.from_iterable(map(codes_within, program.statement_codes)):
        for step in dis.get_instructions(code):
            if step.opname in _NEEDS:
                yield str(step.argval)


def backward_from(value: Any) -> None:
    """Backward from the sum of every floating tensor in ``value`` that requires a gradient."""
    found = [leaf for _, leaf in accuracy.leaves("", value) if isinstance(leaf, torch.Tensor)]
    if losses := [t.float().sum() for t in found if t.is_floating_point() and t.grad_fn]:
        torch.stack([loss.to(losses[0].device) for loss in losses]).sum().backward()  # type: ignore[no-untyped-call]


class _Nowhere(io.TextIOBase):
    """A text stream that keeps nothing; a logger that starts meanwhile may hold and close it."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        return


@contextlib.contextmanager
def _nothing_printed() -> Iterator[None]:
    nowhere: Any = _Nowhere()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield
