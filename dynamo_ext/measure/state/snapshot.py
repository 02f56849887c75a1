"""The state of everything that some code can reach, taken once and put back in place.

Objects keep their identity: what changes back is their content. So a notebook's own modules,
optimizers and lists are as before, and compiled code, whose guards know objects by identity,
still fits.
"""

import array
import collections
import contextlib
import functools
import inspect
import io
import itertools
import operator
import random
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from dynamo_ext.capture.code.source_lines import is_library
from dynamo_ext.capture.code.tensor_reachability import names_read
from dynamo_ext.formatting import article, step_to
from dynamo_ext.measure.state import object_kinds
from dynamo_ext.measure.state.tensor_state import GRADIENT, TensorState, UninitializedState

MAX_OBJECTS = 500_000

_OF_MODULE = re.compile(r"\['_(?:modules|parameters|buffers)'\]\['([^']+)'\]")
"""How a path goes through a module."""

_OF_CYTHON = {"pandas._libs.internals.BlockManager", "pandas._libs.internals.Block"}
"""Classes that have a table's columns and name no slots."""


class Snapshot:
    """Everything that can be reached from some named objects, as it is now.

    Functions lead on to what they read; library code is not entered. ``tensors`` is every dense
    tensor that was found, ``uninitialized`` the parameters and buffers of lazy modules that were
    not called before. ``stopped`` names what is not data, and stays as a run leaves it: an
    iterator, a file, a widget, a thread, a lock. ``unrestorable`` are those that a run may change,
    and ``files`` those that are open.
    """

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self.tensors: list[torch.Tensor] = []
        self.stopped: list[str] = []
        self.unrestorable: list[str] = []
        self.files: list[io.IOBase] = []
        self.uninitialized: list[UninitializedState] = []
        self._states: dict[str, TensorState] = {}
        self._beyond: list[tuple[str, TensorState]] = []
        self._undo: list[Callable[[], bool]] = []
        # Keeping what was seen keeps its id from being given to something else.
        self._seen: dict[int, Any] = {}
        stopped: list[tuple[str, Any]] = []
        pending: collections.deque[tuple[str, Any]] = collections.deque(roots.items())
        while pending and len(self._seen) < MAX_OBJECTS:
            path, value = pending.popleft()
            if object_kinds.is_plain(value) or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            if object_kinds.is_stopped(type(value)):
                stopped.append((f"{path} ({article(type(value).__name__)})", value))
                continue
            if isinstance(attributes := getattr(value, "__dict__", None), dict):
                pending.append((path, attributes))
            pending.extend(self._take(value, path))
        for said, value in stopped:
            self._look_beyond(said, value)

    def changed(self) -> dict[str, torch.Tensor]:
        """The tensors whose content or memory is not what it was, and gradients that are new.

        By the path they were found on, a module's as in its ``named_parameters``.
        """
        found = {}
        for path, state in self._states.items():
            if state.content_changed(thorough=True):
                found[path] = state.tensor
            if state.gradient_changed() and state.tensor.grad is not None:
                found[f"{path}{GRADIENT}"] = state.tensor.grad
        return found

    def content(self, path: str) -> torch.Tensor | None:
        """What the tensor on a path held, which is not to be changed; ``None`` for other paths."""
        state = self._states.get(path)
        return state.content if state else None

    def restore(self, *, thorough: bool = True) -> bool:
        """Put everything back; whether there was anything to. Raises, at the end, what one raised.

        ``thorough`` compares the content of every tensor; without it, only tensors that say
        themselves that they changed (their version counter) are looked at, which misses writes
        through ``.data`` and NumPy.
        """
        undos = list(self._undo)
        undos += [functools.partial(s.restore, thorough=thorough) for s in self._states.values()]
        noticed = False
        failed: Exception | None = None
        for undo in undos:
            try:
                noticed |= undo()
            except Exception as error:  # noqa: BLE001 - the rest is put back all the same
                failed = failed or error
        if failed is not None:
            raise failed
        return noticed

    def out_of_reach(self) -> str:
        """What alone leads to a tensor that changed, which is put back; empty where none did."""
        changed = [said for said, state in self._beyond if state.restore(thorough=True)]
        return changed[0] if changed else ""

    def _look_beyond(self, text: str, stopped: Any) -> None:
        """Name what is stopped, and note the tensors that nothing else leads to."""
        if object_kinds.leads_everywhere(stopped):
            return
        pending, known = [stopped], len(self._seen)
        while pending and len(self._seen) < MAX_OBJECTS:
            value = pending.pop()
            if issubclass(type(value), io.IOBase):
                self.files.append(value)
            for each in object_kinds.referents(value):
                if (
                    id(each) in self._seen
                    or object_kinds.is_plain(each)
                    or object_kinds.leads_everywhere(each)
                ):
                    continue
                self._seen[id(each)] = each
                if not issubclass(type(each), torch.Tensor):
                    pending.append(each)
                    continue
                with contextlib.suppress(RuntimeError, NotImplementedError):
                    self._beyond.append((text, TensorState(each)))
        # Most weak references are to what was found in another way.
        if len(self._seen) > known or not issubclass(type(stopped), object_kinds.WEAK):
            self.stopped.append(text)
        if not object_kinds.stays_the_same(type(stopped)):
            self.unrestorable.append(text)

    @functools.singledispatchmethod
    def _take(self, value: Any, path: str) -> Iterable[tuple[str, Any]]:
        """Note one object's content; what it leads to, besides its attributes."""
        found: list[tuple[str, Any]] = []
        if isinstance(value, torch.nn.Module):
            # A lazy one becomes one of another class at its first call.
            self._keep_attribute(value, "__class__", type(value))
        for name in _slots(type(value)):
            try:
                was = getattr(value, name)
            except AttributeError:
                continue
            self._keep_attribute(value, name, was)
            found.append((f"{path}.{name}", was))
        if type(value).__module__ == "__main__":
            found.append((type(value).__name__, type(value)))
        return found

    @_take.register
    def _tensor(self, value: torch.Tensor, path: str) -> Iterable[tuple[str, Any]]:
        if torch.nn.parameter.is_lazy(value):
            self.uninitialized.append(UninitializedState(value))
            self._undo.append(self.uninitialized[-1].restore)
            return ()
        try:
            state = TensorState(value)
        except (RuntimeError, NotImplementedError) as error:
            self.unrestorable.append(f"{path} ({str(error).splitlines()[0]})")
            return ()
        spelt = base = _OF_MODULE.sub(r".\1", path)
        numbers = itertools.count(2)
        while spelt in self._states:
            # Two modules may have a global of one name.
            spelt = f"{base} ({next(numbers)})"
        self._states[spelt] = state
        self.tensors.append(value)
        return [(f"{path}.grad", value.grad)] if value.is_leaf and value.grad is not None else ()

    def _keep(self, same: Callable[[], bool], put: Callable[[], object]) -> None:
        """Put something back where it is not the same any more."""

        def undo() -> bool:
            if same():
                return False
            put()
            return True

        self._undo.append(undo)

    def _keep_attribute(self, value: Any, name: str, was: Any) -> None:
        def undo() -> bool:
            # A cell that is empty has no content.
            with contextlib.suppress(AttributeError, ValueError):
                if getattr(value, name) is was:
                    return False
            try:
                setattr(value, name, was)
            except AttributeError:
                # A read-only attribute that the object creates at each reading.
                return False
            return True

        self._undo.append(undo)

    @_take.register
    def _mapping(self, value: dict, path: str) -> Iterable[tuple[str, Any]]:  # type: ignore[type-arg]
        was, before = dict(value), _ids(value)
        self._keep(lambda: _ids(value) == before, lambda: _refill(value, was))
        return [(path + step_to(key, at), item) for at, (key, item) in enumerate(was.items())]

    @_take.register(list)
    @_take.register(collections.deque)
    def _sequence(self, value: Any, path: str) -> Iterable[tuple[str, Any]]:
        was = list(value)
        before = list(map(id, was))
        self._keep(lambda: list(map(id, value)) == before, lambda: _refill(value, was))
        return self._fixed(was, path)

    @_take.register
    def _set(self, value: set, path: str) -> Iterable[tuple[str, Any]]:  # type: ignore[type-arg]
        was = set(value)
        self._keep(lambda: value == was, lambda: _refill(value, was))
        return [(f"{path}{{…}}", item) for item in was]

    @_take.register(tuple)
    @_take.register(frozenset)
    def _fixed(self, value: Any, path: str) -> Iterable[tuple[str, Any]]:
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]

    @_take.register(bytearray)
    @_take.register(array.array)
    def _buffer(self, value: Any, _path: str) -> Iterable[tuple[str, Any]]:
        was = value[:]
        self._keep(lambda: value == was, lambda: operator.setitem(value, slice(None), was))
        return ()

    @_take.register
    def _array(self, value: np.ndarray, path: str) -> Iterable[tuple[str, Any]]:
        if not value.flags.writeable:
            return ()
        was, nan = value.copy(), value.dtype.kind in "fc"
        self._keep(lambda: np.array_equal(value, was, equal_nan=nan), lambda: np.copyto(value, was))
        return [(path, item) for item in value.flat] if value.dtype == object else ()

    @_take.register(random.Random)
    @_take.register(np.random.Generator)
    @_take.register(np.random.RandomState)
    @_take.register(torch.Generator)
    def _generator(self, value: Any, _path: str) -> Iterable[tuple[str, Any]]:
        if isinstance(value, random.Random):
            put: Callable[[Any], object] = value.setstate
            state: Any = value.getstate()
        elif isinstance(value, np.random.Generator):
            source = value.bit_generator
            put, state = functools.partial(setattr, source, "state"), source.state
        else:
            put, state = value.set_state, value.get_state()

        def undo() -> bool:
            put(state)
            # Drawing other numbers is not a change that a second run must be kept from.
            return False

        self._undo.append(undo)
        return ()

    @_take.register(types.MethodType)
    @_take.register(functools.partial)
    def _bound(self, value: Any, path: str) -> Iterable[tuple[str, Any]]:
        names = ("__self__", "__func__", "func", "args", "keywords")
        return [(path, getattr(value, name)) for name in names if hasattr(value, name)]

    @_take.register
    def _cell(self, value: types.CellType, path: str) -> Iterable[tuple[str, Any]]:
        try:
            was = value.cell_contents
        except ValueError:
            return ()
        self._keep_attribute(value, "cell_contents", was)
        return [(path, was)]

    @_take.register
    def _function(self, value: types.FunctionType, path: str) -> Iterable[tuple[str, Any]]:
        free = value.__code__.co_freevars
        found: list[tuple[str, Any]] = [*zip(free, value.__closure__ or (), strict=True)]
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        found += [(path, default) for default in defaults]
        if not is_library(value.__code__.co_filename):
            scope = value.__globals__
            names = set(names_read(value.__code__))
            found += [(name, scope[name]) for name in names if name in scope]
        return found

    @_take.register
    def _class(self, value: type, path: str) -> Iterable[tuple[str, Any]]:
        if value.__module__ != "__main__":
            return ()
        was = dict(vars(value))

        def undo() -> bool:
            now = vars(value)
            added = [name for name in now if name not in was]
            other = [name for name, item in was.items() if now.get(name) is not item]
            for name in added:
                delattr(value, name)
            for name in other:
                setattr(value, name, was[name])
            return bool(added or other)

        self._undo.append(undo)
        return [(f"{path}.{name}", item) for name, item in was.items() if name != "__dict__"]


def _ids(value: dict[Any, Any]) -> list[int]:
    return [*map(id, value), *map(id, value.values())]


def _refill(value: Any, was: Any) -> None:
    if type(value) is dict:
        # Another thread may look at an object whose attributes these are.
        for key in [key for key in value if key not in was]:
            del value[key]
        value.update(was)
        if _ids(value) == _ids(was):
            return
    value.clear()
    (value.extend if isinstance(was, list) else value.update)(was)


def _slots(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        slots = vars(base).get("__slots__", ())
        if f"{base.__module__}.{base.__name__}" in _OF_CYTHON:
            slots = [name for name, kept in vars(base).items() if inspect.isgetsetdescriptor(kept)]
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if name not in {"__dict__", "__weakref__"}:
                private = name.startswith("__") and not name.endswith("__")
                yield f"_{base.__name__.lstrip('_')}{name}" if private else name
