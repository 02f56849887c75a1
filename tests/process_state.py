"""All of a process that importing a package and running code might change, to be compared.

A snapshot holds what it has seen, so that no address is used again: what differs is another
object, and not an equal one, unless both are plain values.
"""

from __future__ import annotations

import atexit
import builtins
import collections
import copyreg
import decimal
import gc
import logging
import os
import random
import signal
import sys
import threading
import types
import warnings
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

State = dict[str, Any]

_MODULE = object()
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MAPPINGS = (dict, weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
_LISTS = (list, tuple, collections.deque)
_SETS = (set, frozenset, weakref.WeakSet)
_DESCRIPTORS = (property, staticmethod, classmethod)
_DEEPEST = 3
_met: dict[int, tuple[str, Any]] = {}


def snapshot(*roots: str, shell: Any = None) -> State:
    """What there is in the modules under ``roots``, in torch's registries, and around them.

    Parameters
    ----------
    roots
        Names of packages whose modules, classes and containers are walked.
    shell
        An IPython shell whose hooks are to be held too.

    Returns
    -------
    State
        Paths to objects.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(_all(roots, shell))


def _all(roots: Sequence[str], shell: Any) -> Iterator[tuple[str, Any]]:
    yield from _interpreter()
    for name, module in sorted(sys.modules.items()):
        if isinstance(module, types.ModuleType) and name.partition(".")[0] in roots:
            yield from _module(name, module)
    yield from _torch()
    if shell is not None:
        yield from _shell(shell)


def differences(before: State, after: State) -> dict[str, str]:
    """Paths whose object has been replaced, added to what was there, or is gone."""
    found = {}
    gone = object()
    for path in before.keys() | after.keys():
        old, new = before.get(path, gone), after.get(path, gone)
        if not _same(old, new):
            was = "added" if old is gone else "gone" if new is gone else ""
            found[path] = was or f"{_shown(old)} -> {_shown(new)}"
    # A module that was not there before changes nothing that was.
    return {
        path: change
        for path, change in found.items()
        if change != "added" or (after[path] is not _MODULE and _owner(path) in before)
    }


def base(path: str) -> str:
    """The object that a path is in: a container, without what it holds."""
    return path.partition("[")[0]


def is_code(state: State, path: str) -> bool:
    """Whether a path is a function, a class or a part of one, and no data."""
    return callable(state.get(path)) or isinstance(state.get(path), _DESCRIPTORS)


def _owner(path: str) -> str:
    mark = "[" if path.endswith("]") else " " if " " in path else "."
    return path.rpartition(mark)[0]


def _same(old: Any, new: Any) -> bool:
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(old, _PLAIN):
        return bool(old == new)
    return False


def _shown(value: Any) -> str:
    try:
        return repr(value)[:100]
    except Exception:  # noqa: BLE001
        return type(value).__name__


def _module(name: str, module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    yield name, _MODULE
    for key, value in list(vars(module).items()):
        path = f"{name}.{key}"
        if isinstance(value, types.ModuleType) or key in {"__builtins__", "__spec__", "__loader__"}:
            continue
        yield path, value
        if isinstance(value, type) and value.__module__ == name:
            for inner, member in list(vars(value).items()):
                yield f"{path}.{inner}", member
                yield from _content(f"{path}.{inner}", member)
        else:
            yield from _content(path, value)


def _content(path: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if depth >= _DEEPEST or (id(value) in _met and _met[id(value)][0] != path):
        return
    _met[id(value)] = (path, value)
    items: list[tuple[Any, Any]]
    if isinstance(value, _MAPPINGS):
        items = list(value.items())
    elif isinstance(value, _LISTS):
        items = list(enumerate(value))
    elif isinstance(value, _SETS):
        items = [(each, None) for each in value]
    else:
        return
    for key, each in items:
        inner = f"{path}[{key if isinstance(key, _PLAIN) else _named(key)}]"
        yield inner, each
        yield from _content(inner, each, depth + 1)


def _named(key: Any) -> str:
    name = getattr(key, "__qualname__", None) or getattr(key, "__name__", None)
    return f"{name or type(key).__name__}@{id(key):x}"


def _interpreter() -> Iterator[tuple[str, Any]]:
    yield "trace", sys.gettrace()
    yield "profile", sys.getprofile()
    for name in ("excepthook", "unraisablehook", "displayhook", "breakpointhook"):
        yield f"sys.{name}", getattr(sys, name)
    yield "threading.excepthook", threading.excepthook
    yield "recursion limit", sys.getrecursionlimit()
    yield "switch interval", sys.getswitchinterval()
    yield "async generator hooks", tuple(sys.get_asyncgen_hooks()) == (None, None)
    for name in ("path", "meta_path", "path_hooks"):
        value = getattr(sys, name)
        yield f"sys.{name}", value
        yield from _content(f"sys.{name}", value)
    yield "gc enabled", gc.isenabled()
    yield "gc threshold", str(gc.get_threshold())
    yield "gc frozen", gc.get_freeze_count()
    yield "gc debug", gc.get_debug()
    yield "gc callbacks", None
    yield from _content("gc callbacks", gc.callbacks)
    yield "atexit", atexit._ncallbacks()
    yield "warnings showwarning", warnings.showwarning
    yield "warnings filters", None
    yield from _content("warnings filters", [str(each) for each in warnings.filters])
    yield "environment", None
    for key, text in os.environ.items():
        yield f"environment[{key}]", text
    yield "directory", str(Path.cwd())
    for number in signal.valid_signals():
        yield f"signal {number}", signal.getsignal(number)
    if hasattr(os, "sched_getaffinity"):
        yield "affinity", str(sorted(os.sched_getaffinity(0)))
    yield "random state", str(random.getstate())
    yield "decimal context", str(decimal.getcontext())
    yield "small numbers", 1e-308 / 1e5
    yield "copyreg", None
    yield from _content("copyreg", copyreg.dispatch_table)
    yield "builtins", None
    yield from _content("builtins", vars(builtins))
    yield "logging disabled", logging.root.manager.disable
    yield "logging class", logging.getLoggerClass()
    yield "logging record", logging.getLogRecordFactory()
    loggers = {"root": logging.root, **logging.root.manager.loggerDict}
    for name, logger in loggers.items():
        if isinstance(logger, logging.Logger):
            yield f"logger {name}", None
            for field in ("level", "propagate", "disabled"):
                yield f"logger {name} {field}", getattr(logger, field)
            for field in ("handlers", "filters"):
                yield f"logger {name} {field}", None
                yield from _content(f"logger {name} {field}", getattr(logger, field))


def _torch() -> Iterator[tuple[str, Any]]:
    import numpy as np
    import torch
    from torch._dynamo import convert_frame, eval_frame
    from torch._ops import OpOverload
    from torch.utils._config_module import ConfigModule

    yield "numpy random state", str(np.random.get_state())
    yield "numpy errors", str(np.geterr())
    yield "torch random state", str(torch.get_rng_state().tolist())
    yield "torch subnormal", float(torch.tensor([1e-38]) * torch.tensor([1e-3]))
    yield "torch dtype", str(torch.get_default_dtype())
    yield "torch device", str(torch.get_default_device())
    yield "torch threads", torch.get_num_threads()
    yield "torch threads between", torch.get_num_interop_threads()
    yield "torch grad", torch.is_grad_enabled()
    yield "torch inference", torch.is_inference_mode_enabled()
    yield "torch deterministic", torch.get_deterministic_debug_mode()
    yield "torch anomaly", torch.is_anomaly_enabled()
    yield "torch autocast", torch.is_autocast_enabled("cpu")
    yield "torch autocast dtype", str(torch.get_autocast_dtype("cpu"))
    yield "torch autocast cache", torch.is_autocast_cache_enabled()
    yield "torch precision", torch.get_float32_matmul_precision()
    yield "torch mkldnn", torch._C._get_mkldnn_enabled()
    yield "torch nnpack", torch._C._get_nnpack_enabled()
    yield "torch warn always", torch.is_warn_always_enabled()
    yield "torch modes", torch._C._len_torch_dispatch_stack()
    yield "torch function modes", torch._C._len_torch_function_stack()
    yield "torch tracing", torch._C._get_tracing_state()
    yield (
        "torch sdp",
        str(
            [
                torch.backends.cuda.flash_sdp_enabled(),
                torch.backends.cuda.mem_efficient_sdp_enabled(),
                torch.backends.cuda.math_sdp_enabled(),
            ]
        ),
    )
    yield (
        "torch jit",
        str(
            [
                torch._C._jit_can_fuse_on_cpu(),
                torch._C._jit_can_fuse_on_gpu(),
                torch._C._jit_texpr_fuser_enabled(),
                torch._C._get_graph_executor_optimize(),
                torch._C._jit_set_profiling_executor(torch._C._jit_set_profiling_executor(True)),
            ]
        ),
    )
    yield "frame callback", torch._C._dynamo.eval_frame.get_eval_frame_callback()
    yield "stance", eval_frame._stance.stance
    yield "bytecode hooks", None
    yield from _content("bytecode hooks", convert_frame._bytecode_hooks)
    for name, module in sorted(sys.modules.items()):
        if isinstance(module, ConfigModule):
            for key, value in module.get_config_copy().items():
                plain = isinstance(value, _PLAIN) or callable(value)
                yield f"config {name}.{key}", value if plain else repr(value)
    yield "operators", None
    for name in torch._C._dispatch_get_all_op_names():
        yield f"operators[{name}]", torch._C._dispatch_dump(name)
    for packet in list(_packets(torch)):
        for overload in list(vars(packet).values()):
            if isinstance(overload, OpOverload):
                for table in ("py_kernels", "functorch_table", "python_key_table"):
                    yield f"{table} of {overload}", None
                    yield from _content(f"{table} of {overload}", getattr(overload, table, {}))


def _packets(torch: Any) -> Iterator[Any]:
    for namespace in vars(torch.ops).values():
        for packet in vars(namespace).values() if hasattr(namespace, "__dict__") else ():
            if type(packet).__name__ == "OpOverloadPacket":
                yield packet


def _shell(shell: Any) -> Iterator[tuple[str, Any]]:
    for name in ("ast_transformers", "input_transformers_post", "custom_exceptions"):
        yield f"shell {name}", None
        yield from _content(f"shell {name}", getattr(shell, name))
    yield "shell transforms", None
    yield from _content("shell transforms", shell.input_transformer_manager.line_transforms)
    yield "shell cleanup", None
    yield from _content("shell cleanup", shell.input_transformer_manager.cleanup_transforms)
    yield "shell events", None
    yield from _content("shell events", shell.events.callbacks)
    yield "shell magics", None
    yield from _content("shell magics", shell.magics_manager.magics)
    yield "shell attributes", None
    for name, value in vars(shell).items():
        yield f"shell attributes[{name}]", value
