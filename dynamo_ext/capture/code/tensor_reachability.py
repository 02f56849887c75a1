"""Whether a stretch of a cell can have anything to do with tensors.

Tracing other Python gains nothing, costs time, and is visible to the program (frames, finalisers):
it runs as plain module code.
"""

import functools
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from dynamo_ext.capture.code.function_code import codes_within
from dynamo_ext.capture.code.source_lines import is_library
from dynamo_ext.capture.torch_private import traced_frames

_TENSORS = torch.Tensor, torch.nn.Module
_MOST_ITEMS, _DEEPEST = 64, 6

_far_from_torch: MutableMapping[Any, int] = WeakIdKeyDictionary()
"""Classes and functions of libraries that lead to nothing of torch's, with how far was looked."""


def reaches_tensors(code: types.CodeType, namespace: Mapping[str, Any]) -> bool:
    """Look through the names that ``code`` reads, and what they lead to, for torch."""
    return _Search().names(code, namespace, _DEEPEST)


def names_read(code: types.CodeType) -> Iterator[str]:
    """Every name of a global or an attribute that a code object, or one inside it, mentions."""
    for each in codes_within(code):
        yield from each.co_names


class _Search:
    def __init__(self) -> None:
        self._seen: set[int] = set()

    def names(self, code: types.CodeType, namespace: Mapping[str, Any], depth: int) -> bool:
        if id(code) in self._seen or depth < 0:
            return False
        self._seen.add(id(code))
        values = [namespace[name] for name in names_read(code) if name in namespace]
        # A tensor is seen at once: a figure beside it leads to hundreds of objects.
        at_once = any(issubclass(type(each), _TENSORS) for each in values)
        return at_once or any(self.value(each, depth) for each in values)

    def value(self, value: Any, depth: int) -> bool:  # noqa: PLR0911 - one line a kind
        # `isinstance` would ask the object's own `__class__`, which may be the user's code.
        kind = type(value)
        if issubclass(kind, _TENSORS):
            return True
        if value is None or issubclass(kind, (str, bytes, int, float, complex)) or depth < 0:
            return False
        if id(value) in self._seen:
            return False
        self._seen.add(id(value))
        if issubclass(kind, types.ModuleType):
            return _is_torch(value.__name__)
        if issubclass(kind, (types.FunctionType, type)):
            return (
                self._of_library(value, depth) if _is_librarys(value) else self._code(value, depth)
            )
        if issubclass(kind, types.MethodType):
            return self.value(value.__self__, depth - 1) or self.value(value.__func__, depth)
        if issubclass(kind, functools.partial):
            parts = (value.func, *value.args, *value.keywords.values())
            return self._any(parts, depth)
        if issubclass(kind, (list, tuple, set, frozenset)):
            return self._any(value, depth)
        if issubclass(kind, dict):
            return self._any(value.values(), depth)
        return self._object(value, depth)

    def _any(self, values: Iterable[Any], depth: int) -> bool:
        return any(self.value(v, depth - 1) for v in list(values)[:_MOST_ITEMS])

    def _of_library(self, value: Any, depth: int) -> bool:
        """As ``_code``, which libraries do not change."""
        if _far_from_torch.get(value, -1) >= depth:
            return False
        found = self._code(value, depth)
        if not found:
            _far_from_torch[value] = depth
        return found

    def _code(self, value: Any, depth: int) -> bool:
        return self._type(value, depth) if isinstance(value, type) else self._function(value, depth)

    def _function(self, function: types.FunctionType, depth: int) -> bool:
        if _is_torch(function.__module__):
            return True
        cells = [c.cell_contents for c in function.__closure__ or () if is_filled(c)]
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        others = [*cells, *defaults, getattr(function, "__wrapped__", None)]
        names = self.names(function.__code__, function.__globals__, depth - 1)
        return names or self._any(others, depth)

    def _type(self, cls: type, depth: int) -> bool:
        if any(_is_torch(base.__module__) for base in cls.__mro__):
            return True
        if cls.__module__ in sys.stdlib_module_names or cls.__module__ == "builtins":
            return False
        methods = [v for base in cls.__mro__ if base is not object for v in vars(base).values()]
        return self._any((getattr(m, "__func__", m) for m in methods), depth)

    def _object(self, value: Any, depth: int) -> bool:
        if _is_torch(getattr(type(value), "__module__", None)):
            return True
        if type(value) is types.BuiltinFunctionType:
            return _is_torch(value.__module__)
        state = traced_frames.attributes(value)
        # As `functools.wraps` copies it.
        if _is_torch(state.get("__module__")):
            return True
        # A figure of a library's leads to thousands of its own objects.
        below = depth - 1 if _is_librarys(type(value)) else depth
        return self._any(state.values(), below) or self.value(type(value), depth - 1)


def _is_librarys(value: Any) -> bool:
    """Whether a class or a function is in a module that was imported from a library's file."""
    module = sys.modules.get(str(getattr(value, "__module__", "")))
    return is_library(getattr(module, "__file__", None) or "")


def _is_torch(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == "torch"


def is_filled(cell: types.CellType) -> bool:
    """Whether the variable of a closure is bound."""
    try:
        cell.cell_contents  # noqa: B018 - raises where it is empty
    except ValueError:
        return False
    return True
