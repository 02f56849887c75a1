"""Are two namespaces the same? Values deeply, identity and shared memory included."""

from __future__ import annotations

import collections
import functools
import inspect
import random
import re
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from IPython.utils.capture import CapturedIO

from tests.corpus.text import Cleaner

_PLAIN = (
    int,
    float,
    complex,
    bytes,
    bool,
    type(None),
    type(...),
    range,
    slice,
    type(NotImplemented),
)
_PLAIN_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_NO_IDENTITY = (*_PLAIN, *_PLAIN_TORCH, str, tuple, frozenset, types.CodeType, types.MethodType,
                types.BuiltinFunctionType, types.MethodWrapperType, np.generic)  # fmt: skip
_ROUNDING = {"rel": 1e-4, "abs": 1e-6}
_HISTORY = re.compile(r"_i\d*|_ii|_iii|_ih|In|__warningregistry__")
_OF_CLASSES = {"__dict__", "__weakref__", "_abc_impl", "__firstlineno__", "__static_attributes__",
               "__doc__", "__module__", "__qualname__"}  # fmt: skip

# Attributes that say nothing of the cell: how a traceback is printed; counters of the process; and
# torch's mark on parameters, which one case of the corpus looks at by itself.
_IGNORED = {"_render_traceback_", "_torchdynamo_wrapper_id", "_isolate_recompiles_id",
            "_autograd_function_id", "_dynamo_static_input_type",
            "_dynamo_propagated_dynamic_indices"}  # fmt: skip
# What torch.compile leaves in a namespace; looked at only where a plain cell calls it.
_BY_TORCH = re.compile(r"__(compiled_fn|builtins_dict|import|resume_at)_.*")


class Likeness:
    """Walks two sessions' values side by side and notes each difference in words.

    Where an ``engine`` computed one of them, numbers are equal within rounding, and how a tensor
    lies in memory and is differentiated is the engine's business.
    """

    def __init__(self, left: Cleaner, right: Cleaner, *, engine: bool = False) -> None:
        self.left, self.right, self.engine = left, right, engine
        self.differences: list[str] = []
        self._pairs: set[tuple[int, int]] = set()
        self._forth: dict[Any, Any] = {}
        self._back: dict[Any, Any] = {}
        self._kept: list[Any] = []

    def assume(self, a: object, b: object) -> None:
        """Take two objects (the shells, the modules) for the same."""
        self._kept.append((a, b))
        self._pairs.add((id(a), id(b)))
        self._forth[id(a)], self._back[id(b)] = id(b), id(a)

    def note(self, path: str, what: str, a: object, b: object) -> None:
        self.differences.append(f"{path}: {what}: plain {_short(a)}, magic {_short(b)}")

    def namespaces(self, a: dict[str, Any], b: dict[str, Any]) -> None:
        """Names exactly, values deeply; of IPython's input history only the names."""
        if any(_BY_TORCH.fullmatch(name) for name in a):
            a, b = ({k: v for k, v in x.items() if not _BY_TORCH.fullmatch(k)} for x in (a, b))
        self.equal("names", sorted(a), sorted(b))
        for name in a:
            if name in b and not _HISTORY.fullmatch(name):
                self.compare(name, a[name], b[name])

    def equal(self, path: str, a: Any, b: Any, what: str = "value") -> None:
        if a != b:
            if isinstance(a, list) and isinstance(b, list):
                only_a, only_b = [x for x in a if x not in b], [x for x in b if x not in a]
                what, a, b = (f"{what} (items only there)", only_a or a, only_b or b)
            self.note(path, what, a, b)

    def _tie(self, path: str, a: Any, b: Any) -> bool:
        """Note that a corresponds to b; say whether the pair is new."""
        if (id(a), id(b)) in self._pairs:
            return False
        self._kept.append((a, b))
        self._pairs.add((id(a), id(b)))
        if not isinstance(a, _NO_IDENTITY):
            self._match(path, "identity (aliasing)", id(a), id(b))
        return True

    def _match(self, path: str, what: str, a: Any, b: Any) -> None:
        if self._forth.setdefault(a, b) != b or self._back.setdefault(b, a) != a:
            self.note(path, what, "one object", "another correspondence")

    def compare(self, path: str, a: Any, b: Any) -> None:
        """Compare two values; every difference is noted, none raises."""
        if a is b:
            self._tie(path, a, b)
            return
        if isinstance(a, type) and isinstance(b, type):
            if self._tie(path, a, b):
                self._classes(path, a, b)
        elif self._alike(path, a, b):
            self._compare_values(path, a, b)

    def _alike(self, path: str, a: Any, b: Any) -> bool:
        """Whether two values have types that can be compared; their difference is noted."""
        if type(a) is not type(b):
            if not _could_be_one(type(a), type(b)):
                self.note(path, "type", type(a).__qualname__, type(b).__qualname__)
                return False
            self.compare(f"type({path})", type(a), type(b))
        return True

    def _compare_values(self, path: str, a: Any, b: Any) -> None:
        if isinstance(a, str) and type(a) is str:
            self.equal(path, self.left.text(a), self.right.text(b))
        elif self.engine and type(a) is float:
            self.equal(path, a, pytest.approx(b, **_ROUNDING, nan_ok=True))
        elif type(a) in _PLAIN or isinstance(a, _PLAIN_TORCH):
            self.equal(path, repr(a), repr(b))
        elif self._tie(path, a, b):
            for kind, method in _METHODS:
                if isinstance(a, kind):
                    method(self, path, a, b)
                    return
            self._objects(path, a, b)

    def _each(self, path: str, a: Any, b: Any, *attributes: str) -> None:
        for name in attributes:
            self.compare(f"{path}.{name}", getattr(a, name, None), getattr(b, name, None))

    def _sequences(self, path: str, a: Any, b: Any) -> None:
        self.equal(path, len(a), len(b), "length")
        for index, (x, y) in enumerate(zip(a, b, strict=False)):
            self.compare(f"{path}[{index}]", x, y)
        self._objects(path, a, b, text=False)

    def _sets(self, path: str, a: Any, b: Any) -> None:
        left = sorted(a, key=lambda x: self.left.text(repr(x)))
        right = sorted(b, key=lambda x: self.right.text(repr(x)))
        self._sequences(path, left, right)

    def _mappings(self, path: str, a: Mapping[Any, Any], b: Mapping[Any, Any]) -> None:
        if path.endswith("_hooks']"):  # its keys count the hooks of the process
            self._sequences(path, list(a.values()), list(b.values()))
            return
        keys = list(a), list(b)
        if all(isinstance(key, (str, int)) for key in (*keys[0], *keys[1])):
            keys = tuple([key for key in some if key not in _IGNORED] for some in keys)
            self.equal(path, *keys, "keys")
            for key in (k for k in keys[0] if k in b):
                self.compare(f"{path}[{key!r}]", a[key], b[key])
            return
        self.equal(path, len(a), len(b), "length")
        for x, y in zip(*keys, strict=False):
            self.compare(f"key of {path}", x, y)
            self.compare(f"{path}[{_short(x)}]", a[x], b[y])

    def _functions(self, path: str, a: types.FunctionType, b: types.FunctionType) -> None:
        self._each(path, a, b, "__name__", "__qualname__", "__module__", "__doc__", "__defaults__",
                   "__kwdefaults__", "__annotations__", "__dict__", "__globals__", "__code__")  # fmt: skip
        cells = [self._cell_contents(f) for f in (a, b)]
        self.compare(f"{path}.__closure__", *cells)
        self.compare(f"{path} signature", *map(_signature, (a, b)))

    @staticmethod
    def _cell_contents(function: types.FunctionType) -> list[Any]:
        found = []
        for cell in function.__closure__ or ():
            try:
                found.append(cell.cell_contents)
            except ValueError:
                found.append("an empty cell")
        return found

    def _codes(self, path: str, a: types.CodeType, b: types.CodeType) -> None:
        self._each(path, a, b, "co_name", "co_qualname", "co_filename", "co_varnames",
                   "co_freevars", "co_cellvars", "co_names")  # fmt: skip
        # "Nested" is a note of the compiler's that nothing reads any more.
        flags = [inspect.CO_NESTED | code.co_flags for code in (a, b)]
        self.equal(f"{path}.co_flags", *flags)
        lines = [f'File "{c.co_filename}", line {c.co_firstlineno}' for c in (a, b)]
        self.compare(f"{path} first line", *lines)
        sources = []
        for code in (a, b):
            if code.co_name.startswith("<") and code.co_name != "<lambda>":
                continue  # inspect cannot tell where these begin
            try:
                sources.append(inspect.getsource(code))
            except (OSError, TypeError) as error:
                sources.append(type(error).__name__)
        self.compare(f"{path} source", *(sources or ("", "")))

    def _methods(self, path: str, a: Any, b: Any) -> None:
        self._each(path, a, b, "__self__", "__name__", "__qualname__", "__func__")

    def _frozen(self, path: str, a: Any, b: Any) -> None:
        """Generators and coroutines: their name and where they stand."""
        prefix = {"generator": "gi", "coroutine": "cr", "async_generator": "ag"}[type(a).__name__]
        self._each(path, a, b, "__name__", "__qualname__", f"{prefix}_running", f"{prefix}_code")
        frames = [getattr(x, f"{prefix}_frame") for x in (a, b)]
        where = [f and f'File "{f.f_code.co_filename}", line {f.f_lineno}' for f in frames]
        self.compare(f"{path} position", *where)
        self.compare(f"{path} locals", *({} if f is None else dict(f.f_locals) for f in frames))

    def _classes(self, path: str, a: type, b: type) -> None:
        if not _could_be_one(a, b):
            self.note(path, "type", a.__qualname__, b.__qualname__)
            return
        self._each(path, a, b, "__name__", "__qualname__", "__module__", "__doc__", "__mro__")
        self.compare(f"type({path})", type(a), type(b))
        spaces = [{k: v for k, v in vars(c).items() if k not in _OF_CLASSES} for c in (a, b)]
        self._mappings(f"vars({path})", *spaces)

    def _tensors(self, path: str, a: torch.Tensor, b: torch.Tensor) -> None:
        if torch.nn.parameter.is_lazy(a) or torch.nn.parameter.is_lazy(b):
            self.compare(f"{path}.__dict__", vars(a), vars(b))
            return
        for name in ("dtype", "device", "layout", "shape", "requires_grad", "is_leaf",
                     "retains_grad"):  # fmt: skip
            self.equal(path, getattr(a, name), getattr(b, name), name)
        if not self.engine:
            nodes = [type(t.grad_fn).__name__ for t in (a, b)]
            self.equal(path, *nodes, "grad_fn")
            self.equal(path, a._is_view(), b._is_view(), "view or not")
        if a.layout is torch.strided and b.layout is torch.strided and a.shape == b.shape:
            if not self.engine:
                self.equal(path, a.stride(), b.stride(), "strides")
                self.equal(path, a.storage_offset(), b.storage_offset(), "offset")
            if a.untyped_storage().nbytes() and b.untyped_storage().nbytes():
                memory = ("memory", a.data_ptr()), ("memory", b.data_ptr())
                self._match(path, "memory shared with others", *memory)
        dense = [t.detach().to_dense() if t.is_sparse else t.detach() for t in (a, b)]
        left, right = (t.as_subclass(torch.Tensor) for t in dense)
        if left.shape == right.shape and left.dtype == right.dtype:
            alike = (left == right) | (left.isnan() & right.isnan())
            if self.engine and left.is_floating_point():
                alike |= left.isclose(right, rtol=_ROUNDING["rel"], atol=_ROUNDING["abs"])
            self.equal(path, True, bool(alike.all()), "elements equal")
        if all(t.is_leaf or t.retains_grad for t in (a, b)):
            self.compare(f"{path}.grad", a.grad, b.grad)
        # A hook that Dynamo traced is a function of torch's that calls what it traced.
        self.equal(path, *(len(t._backward_hooks or ()) for t in (a, b)), "number of hooks")
        self.compare(f"{path}.__dict__", vars(a), vars(b))

    def _arrays(self, path: str, a: Any, b: Any) -> None:
        for name in ("dtype", "shape", "strides"):
            self.equal(path, getattr(a, name), getattr(b, name), name)
        if a.dtype == object:
            self._sequences(path, a.ravel().tolist(), b.ravel().tolist())
            return
        if self.engine and a.dtype.kind == "f" and a.shape == b.shape:
            self.equal(path, True, bool(np.allclose(a, b, equal_nan=True)), "elements equal")
        else:
            self.equal(path, a.tobytes(), b.tobytes(), "elements")
        if isinstance(a, np.ndarray) and a.nbytes:
            memory = [("memory", x.__array_interface__["data"][0]) for x in (a, b)]
            self._match(path, "memory shared with others", *memory)

    def _errors(self, path: str, a: BaseException, b: BaseException) -> None:
        self._each(path, a, b, "__cause__", "__context__", "__suppress_context__")
        if isinstance(a, SyntaxError):
            self._each(path, a, b, "offset", "end_offset", "text", "print_file_and_line")
            places = [f'File "{e.filename}", line {e.lineno} to {e.end_lineno}' for e in (a, b)]
            self.compare(f"{path} place", *places)
            self.equal(f"{path}.msg", self.left.syntax(a), self.right.syntax(b))
            return
        self.compare(f"{path}.args", a.args, b.args)
        if isinstance(a, BaseExceptionGroup):
            self._each(path, a, b, "exceptions")
        self.compare(f"str({path})", *(_said(e) for e in (a, b)))
        self.compare(f"{path}.__dict__", *(
            {k: v for k, v in vars(e).items() if k not in _IGNORED} for e in (a, b)
        ))  # fmt: skip

    def _captured(self, path: str, a: CapturedIO, b: CapturedIO) -> None:
        self._each(path, a, b, "stdout", "stderr")
        outputs = [[o for o in x._outputs if not is_report(o["data"])] for x in (a, b)]
        self.compare(f"{path}.outputs", *outputs)

    def _optimizers(self, path: str, a: Any, b: Any) -> None:
        self.compare(f"{path}.param_groups", a.param_groups, b.param_groups)
        self.compare(f"{path}.state", dict(a.state), dict(b.state))

    def _objects(self, path: str, a: Any, b: Any, text: bool = True) -> None:
        """Anything else: its attributes, and its repr where it has none."""
        slots = [s for c in type(a).__mro__ for s in _slots(c)]
        for name in slots:
            self.compare(f"{path}.{name}", getattr(a, name, None), getattr(b, name, None))
        if hasattr(a, "__dict__"):
            self._mappings(f"vars({path})", *(dict(vars(x)) for x in (a, b)))
        elif text and not slots:
            self.equal(path, self.left.text(repr(a)), self.right.text(repr(b)), "repr")


def is_report(bundle: Mapping[str, Any]) -> bool:
    """Whether a displayed bundle is the magic's own report."""
    return "dynamo-ext" in str(bundle.get("text/html", "")) or (
        "application/vnd.jupyter.widget-view+json" in bundle
    )


def _could_be_one(a: type, b: type) -> bool:
    """Whether two classes may stand for one class statement of the two sessions."""
    modules = {a.__module__, b.__module__}
    return a is b or (a.__name__ == b.__name__ and (len(modules) == 1 or "__main__" in modules))


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - the user's own __str__
        return f"no str: {failure!r}"


def _signature(function: Any) -> str:
    try:
        return str(inspect.signature(function))
    except ValueError as failure:  # what it wraps is a built-in function
        return type(failure).__name__


def _slots(cls: type) -> list[str]:
    slots = vars(cls).get("__slots__", ()) if cls.__module__ == "__main__" else ()
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) < 300 else text[:300] + "…"


_METHODS: list[tuple[Any, Callable[[Likeness, str, Any, Any], None]]] = [
    (torch.optim.Optimizer, Likeness._optimizers),
    (torch.Tensor, Likeness._tensors),
    ((np.ndarray, np.generic), Likeness._arrays),
    (torch.Generator, lambda s, p, a, b: s.compare(p, a.get_state(), b.get_state())),
    (random.Random, lambda s, p, a, b: s.compare(p, a.getstate(), b.getstate())),
    ((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType), Likeness._frozen),
    (types.FunctionType, Likeness._functions),
    (types.CodeType, Likeness._codes),
    ((types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType), Likeness._methods),
    (types.TracebackType, lambda s, p, a, b: None),
    (functools.partial, lambda s, p, a, b: s._each(p, a, b, "func", "args", "keywords")),
    (property, lambda s, p, a, b: s._each(p, a, b, "fget", "fset", "fdel", "__doc__")),
    ((classmethod, staticmethod), lambda s, p, a, b: s._each(p, a, b, "__func__")),
    (types.ModuleType, lambda s, p, a, b: s._mappings(p, dict(vars(a)), dict(vars(b)))),
    (BaseException, Likeness._errors),
    (CapturedIO, Likeness._captured),
    ((dict, types.MappingProxyType, collections.ChainMap), Likeness._mappings),
    ((list, tuple, collections.deque), Likeness._sequences),
    ((set, frozenset), Likeness._sets),
]
