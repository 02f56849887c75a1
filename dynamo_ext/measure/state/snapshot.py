"""The state of everything that some code can reach, taken once and put back in place.

Objects keep their identity: what changes back is their content. So a notebook's own modules,
optimizers and lists are as before, and compiled code, whose guards know objects by identity,
still fits.
"""

from __future__ import annotations

import array
import collections
import io
import itertools
import operator
import random
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from dynamo_ext.capture.cells.tensor_reachability import names_read
from dynamo_ext.formatting import article
from dynamo_ext.measure.state.tensor_state import TensorState, UninitializedState

MAX_OBJECTS = 500_000

_OF_MODULE = re.compile(r"\['_(?:modules|parameters|buffers)'\]\['([^']+)'\]")
"""How a path goes through a module."""

_PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis)),
    *(torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format),
    *(types.BuiltinFunctionType, types.CodeType, types.GetSetDescriptorType),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.MemberDescriptorType),
    *(property, staticmethod, classmethod, np.generic, np.dtype),
)


class Snapshot:
    """Everything that can be reached from some named objects, as it is now.

    Functions lead on to what they read; library code is not entered. ``tensors`` is every dense
    tensor that was found, ``uninitialized`` the parameters and buffers of lazy modules that were
    not called before. ``unrestorable`` has sentences about what cannot be put back: iterators,
    files, generators.
    """

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self.tensors: list[torch.Tensor] = []
        self.unrestorable: list[str] = []
        self.uninitialized: list[UninitializedState] = []
        self._states: dict[str, TensorState] = {}
        self._undo: list[Callable[[], bool]] = []
        # Keeping what was seen keeps its id from being given to something else.
        self._seen: dict[int, Any] = {}
        pending: collections.deque[tuple[str, Any]] = collections.deque(roots.items())
        while pending and len(self._seen) < MAX_OBJECTS:
            path, value = pending.popleft()
            if _is_plain(value) or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            pending.extend(self._take(path, value))

    def changed(self) -> dict[str, torch.Tensor]:
        """The tensors whose content or memory is not what it was, and gradients that are new.

        By the path they were found on, a module's as in its ``named_parameters``.
        """
        found = {}
        for path, state in self._states.items():
            if state.content_changed(thorough=True):
                found[path] = state.tensor
            if state.gradient_changed() and state.tensor.grad is not None:
                found[f"{path}.grad"] = state.tensor.grad
        return found

    def restore(self, *, thorough: bool = True) -> bool:
        """Put everything back; whether there was anything to.

        ``thorough`` compares the content of every tensor; without it, only tensors that say
        themselves that they changed (their version counter) are looked at, which misses writes
        through ``.data`` and NumPy.
        """
        undone = [undo() for undo in self._undo]
        restored = [state.restore(thorough=thorough) for state in self._states.values()]
        return any(undone) or any(restored)

    def _take(self, path: str, value: Any) -> Iterable[tuple[str, Any]]:
        """Note one object's content; what it leads to."""
        if isinstance(value, torch.Tensor):
            return self._tensor(path, value)
        for kind, take in _KINDS:
            if isinstance(value, kind):
                return [*take(self, path, value), *_attributes(path, value)]
        return self._object(path, value)

    def _tensor(self, path: str, value: torch.Tensor) -> Iterable[tuple[str, Any]]:
        if torch.nn.parameter.is_lazy(value):
            self.uninitialized.append(UninitializedState(value))
            self._undo.append(self.uninitialized[-1].restore)
            return [(path, vars(value))]
        try:
            state = TensorState(value)
        except (RuntimeError, NotImplementedError) as error:
            self.unrestorable.append(f"{path} ({str(error).splitlines()[0]})")
            return ()
        spelt = base = _OF_MODULE.sub(r".\1", path)
        for number in itertools.count(2):
            # Two modules may have a global of one name.
            if spelt not in self._states:
                break
            spelt = f"{base} ({number})"
        self._states[spelt] = state
        self.tensors.append(value)
        found: list[tuple[str, Any]] = [(path, vars(value))]
        if value.is_leaf and value.grad is not None:
            found.append((f"{path}.grad", value.grad))
        return found

    def _keep(self, same: Callable[[], bool], put: Callable[[], object]) -> None:
        """Put something back where it is not the same any more."""

        def undo() -> bool:
            if same():
                return False
            put()
            return True

        self._undo.append(undo)

    def _mapping(self, path: str, value: dict[Any, Any]) -> Iterable[tuple[str, Any]]:
        was = dict(value)
        self._keep(lambda: _same_items(value, was), lambda: _refill(value, was))
        return [(f"{path}[{key!r:.40}]", item) for key, item in was.items()]

    def _sequence(self, path: str, value: Any) -> Iterable[tuple[str, Any]]:
        was = list(value)
        self._keep(
            lambda: len(value) == len(was) and all(map(operator.is_, value, was)),
            lambda: _refill(value, was),
        )
        return self._fixed(path, was)

    def _set(self, path: str, value: set[Any]) -> Iterable[tuple[str, Any]]:
        was = set(value)
        self._keep(lambda: value == was, lambda: _refill(value, was))
        return [(f"{path}{{…}}", item) for item in was]

    def _fixed(self, path: str, value: Any) -> Iterable[tuple[str, Any]]:
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]

    def _buffer(self, _path: str, value: Any) -> Iterable[tuple[str, Any]]:
        was = value[:]
        whole = slice(None)
        self._keep(lambda: value == was, lambda: operator.setitem(value, whole, was))
        return ()

    def _array(self, path: str, value: np.ndarray[Any, Any]) -> Iterable[tuple[str, Any]]:
        if not value.flags.writeable:
            return ()
        was, nan = value.copy(), value.dtype.kind in "fc"
        self._keep(lambda: np.array_equal(value, was, equal_nan=nan), lambda: np.copyto(value, was))
        return [(path, item) for item in value.flat] if value.dtype == object else ()

    def _python_random(self, _path: str, value: random.Random) -> Iterable[tuple[str, Any]]:
        was = value.getstate()
        self._undo.append(_random_back(value.setstate, was))
        return ()

    def _numpy_random(self, _path: str, value: Any) -> Iterable[tuple[str, Any]]:
        if isinstance(value, np.random.Generator):
            bits = value.bit_generator
            self._undo.append(_random_back(lambda was: setattr(bits, "state", was), bits.state))
        else:
            self._undo.append(_random_back(value.set_state, value.get_state()))
        return ()

    def _torch_random(self, _path: str, value: torch.Generator) -> Iterable[tuple[str, Any]]:
        self._undo.append(_random_back(value.set_state, value.get_state()))
        return ()

    def _lost(self, path: str, value: Any) -> Iterable[tuple[str, Any]]:
        self.unrestorable.append(f"{path} ({article(type(value).__name__)})")
        return ()

    def _method(self, path: str, value: types.MethodType) -> Iterable[tuple[str, Any]]:
        return [(path, value.__self__), (path, value.__func__)]

    def _cell(self, path: str, value: types.CellType) -> Iterable[tuple[str, Any]]:
        try:
            was = value.cell_contents
        except ValueError:
            return ()
        self._keep(lambda: value.cell_contents is was, lambda: setattr(value, "cell_contents", was))
        return [(path, was)]

    def _function(self, path: str, value: types.FunctionType) -> Iterable[tuple[str, Any]]:
        free = value.__code__.co_freevars
        found: list[tuple[str, Any]] = [*zip(free, value.__closure__ or (), strict=True)]
        found += [(path, default) for default in value.__defaults__ or ()]
        if not is_library(value.__code__.co_filename):
            scope = value.__globals__
            names = set(names_read(value.__code__))
            found += [(name, scope[name]) for name in names if name in scope]
        return found

    def _class(self, path: str, value: type) -> Iterable[tuple[str, Any]]:
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

    def _object(self, path: str, value: Any) -> Iterable[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        if isinstance(value, torch.nn.Module):
            # A lazy one becomes one of another class at its first call.
            self._undo.append(_slot_back(value, "__class__", type(value)))
        state = getattr(value, "__dict__", None)
        if isinstance(state, dict):
            found.append((path, state))
        for name in _slots(type(value)):
            try:
                was = getattr(value, name)
            except AttributeError:
                continue
            self._undo.append(_slot_back(value, name, was))
            found.append((f"{path}.{name}", was))
        if type(value).__module__ == "__main__":
            found.append((type(value).__name__, type(value)))
        return found


_KINDS: list[tuple[Any, Callable[[Snapshot, str, Any], Iterable[tuple[str, Any]]]]] = [
    (dict, Snapshot._mapping),  # noqa: SLF001 - the class's own table
    ((list, collections.deque), Snapshot._sequence),  # noqa: SLF001
    (set, Snapshot._set),  # noqa: SLF001
    ((tuple, frozenset), Snapshot._fixed),  # noqa: SLF001
    ((bytearray, array.array), Snapshot._buffer),  # noqa: SLF001
    (np.ndarray, Snapshot._array),  # noqa: SLF001
    (random.Random, Snapshot._python_random),  # noqa: SLF001
    ((np.random.Generator, np.random.RandomState), Snapshot._numpy_random),  # noqa: SLF001
    (torch.Generator, Snapshot._torch_random),  # noqa: SLF001
    (types.MethodType, Snapshot._method),  # noqa: SLF001
    (types.FunctionType, Snapshot._function),  # noqa: SLF001
    (types.CellType, Snapshot._cell),  # noqa: SLF001
    (type, Snapshot._class),  # noqa: SLF001
    ((io.IOBase, Iterator, types.CoroutineType), Snapshot._lost),  # noqa: SLF001
]


def _is_plain(value: object) -> bool:
    """Whether there is nothing in it to put back: a number, a module that was imported."""
    if isinstance(value, types.ModuleType):
        return sys.modules.get(value.__name__) is value
    return isinstance(value, _PLAIN)


def _attributes(path: str, value: object) -> Iterable[tuple[str, Any]]:
    """What a function or an object of a derived class carries beside its content."""
    state = getattr(value, "__dict__", None)
    return [(path, state)] if isinstance(state, dict) else []


def _random_back(put: Callable[[Any], object], state: Any) -> Callable[[], bool]:
    def undo() -> bool:
        put(state)
        # Drawing other numbers is not a change that a second run must be kept from.
        return False

    return undo


def is_library(filename: str) -> bool:
    """Whether a source file belongs to Python or an installed package."""
    import sysconfig

    roots = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    return filename.startswith("<frozen") or any(filename.startswith(r) for r in roots if r)


def _same_items(now: dict[Any, Any], was: dict[Any, Any]) -> bool:
    if len(now) != len(was):
        return False
    pairs = zip(now.items(), was.items(), strict=True)
    return all(a is c and b is d for (a, b), (c, d) in pairs)


def _refill(value: Any, was: Any) -> None:
    value.clear()
    (value.extend if isinstance(was, list) else value.update)(was)


def _slots(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if name not in {"__dict__", "__weakref__"}:
                private = name.startswith("__") and not name.endswith("__")
                yield f"_{base.__name__.lstrip('_')}{name}" if private else name


def _slot_back(value: Any, name: str, was: Any) -> Callable[[], bool]:
    def undo() -> bool:
        if getattr(value, name, None) is was:
            return False
        try:
            setattr(value, name, was)
        except AttributeError:
            # A read-only attribute that the object creates at each reading.
            return False
        return True

    return undo
