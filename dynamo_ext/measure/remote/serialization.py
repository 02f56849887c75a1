"""A workload, candidates and settings as bytes, and back.

They are in cloudpickle (functions and classes of ``__main__`` by value) within torch's own format
(tensors that share memory still do).
"""

import contextlib
import contextvars
import io
import linecache
import pickle
import sys
import types
from collections.abc import Iterator
from typing import Any

import cloudpickle
import torch

from dynamo_ext.backends import registry
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.capture.cells.program import CellProgram
from dynamo_ext.capture.code.dynamo_globals import HiddenNames
from dynamo_ext.capture.code.source_lines import is_library
from dynamo_ext.measure.candidate_run import one_line
from dynamo_ext.measure.candidates import Candidate
from dynamo_ext.measure.settings import Settings
from dynamo_ext.measure.state.process_state import switches
from dynamo_ext.measure.workload import CellWorkload, Workload
from dynamo_ext.numerics.rng_state import HostState, TorchState

_OURS = "dynamo_ext.backends."


class _Namespace(dict[str, Any]):
    """Stands for the globals of the user's functions: pickled as those of the worker."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _namespace, ()


_current: contextvars.ContextVar[dict[str, Any]] = contextvars.ContextVar("namespace")


def _namespace() -> dict[str, Any]:
    return _current.get()


def pack(workload: Workload, candidates: list[Candidate], settings: Settings) -> bytes:
    """Everything that a process needs to measure; raises what pickling raises."""
    parts = {
        "workload": workload,
        "candidates": candidates,
        "settings": settings,
        "switches": switches(),
        "random": (HostState(), TorchState()),
    }
    return _dump(parts, workload.namespace)


@contextlib.contextmanager
def unpacked(packed: bytes) -> Iterator[dict[str, Any]]:
    """What was packed, for the length of the block.

    The namespace that it lives in is that of a registered module, since Dynamo looks globals of
    inlined functions up by module: of ``__main__``, as where they come from.
    """
    module, before = types.ModuleType("__main__"), sys.modules["__main__"]
    sys.modules["__main__"] = module
    mark = _current.set(vars(module))
    try:
        parts, gradients, sources = torch.load(  # nosec - as above
            io.BytesIO(packed), pickle_module=pickle, weights_only=False
        )
        for tensor, gradient in gradients:
            tensor.grad = gradient
        for filename, source in sources.items():
            if not linecache.getlines(filename):
                _remember_source(filename, source)
        yield parts
    finally:
        _current.reset(mark)
        sys.modules["__main__"] = before


def _cell(program: CellProgram, values: dict[str, Any], title: str, train: bool) -> CellWorkload:  # noqa: FBT001
    """A cell in the namespace of this process, which gets the values that it reads."""
    _remember_source(program.filename, program.source)
    namespace = _namespace()
    namespace.update(values)
    return CellWorkload(program, namespace, HiddenNames(namespace), title=title, train=train)


def _remember_source(filename: str, source: str) -> None:
    """Let tracebacks and ``inspect`` find a source that has no file here."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)


def why_not(value: Any, namespace: dict[str, Any]) -> str:
    """Why a value cannot be pickled; nothing where it can."""
    try:
        _dump(value, namespace)
    except Exception as error:  # noqa: BLE001 - classes raise what they like
        return one_line(error)
    return ""


def _compiler(backend: Any, options: dict[str, Any], bound: Any) -> Compiler:
    found = registry.get(backend) if isinstance(backend, str) else backend
    return Compiler(found, options, bound=bound)


def _compiler_parts(compiler: Compiler) -> tuple[Any, ...]:
    """What ``_compiler`` is given: backends of ours go by their names."""
    kind = type(compiler.backend)
    ours = kind.__module__.startswith(_OURS) and kind.__name__ != "CallableBackend"
    backend = compiler.backend.name if ours else compiler.backend
    return backend, dict(compiler.options), compiler.bound


def _dump(value: Any, namespace: dict[str, Any]) -> bytes:
    """Pickle a value, and after it what it leads to and does not carry: gradients, source texts."""
    gradients: list[tuple[torch.Tensor, torch.Tensor]] = []
    sources: dict[str, str] = {}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.globals_ref[id(namespace)] = _Namespace()

        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                # Tensors are pickled without their gradient, which an optimizer step reads.
                if value.is_leaf and value.grad is not None:
                    gradients.append((value, value.grad))
            elif isinstance(value, types.FunctionType):
                filename = value.__code__.co_filename
                if filename not in sources and not is_library(filename):
                    sources[filename] = "".join(linecache.getlines(filename))
            elif isinstance(value, CellWorkload):
                return _cell, value.parts
            elif isinstance(value, Compiler):
                return _compiler, _compiler_parts(value)
            return super().reducer_override(value)

    file = io.BytesIO()
    module: Any = types.SimpleNamespace(__name__="cloudpickle", Pickler=Pickler)
    torch.save((value, gradients, sources), file, module, pickle.HIGHEST_PROTOCOL)
    return file.getvalue()
