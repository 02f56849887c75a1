"""Kinds of objects by what is put back of them: content, or nothing.

An object is data unless its class says otherwise: a thread, a widget or an iterator is part of what
runs in this process, and goes on whatever is written into it. Such an object stays as it is, and so
does what it alone leads to.
"""

import contextlib
import gc
import io
import random
import sqlite3
import sys
import threading
import types
import weakref
from collections.abc import Awaitable, Iterator
from typing import Any

import numpy as np
import torch

from dynamo_ext.capture.code.source_lines import is_library

_PLAIN: tuple[Any, ...] = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis)),
    *(torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format),
    *(types.BuiltinFunctionType, types.CodeType, types.GetSetDescriptorType),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.MemberDescriptorType),
    *(property, staticmethod, classmethod, np.generic, np.dtype, random.SystemRandom),
)
WEAK: tuple[Any, ...] = (weakref.ReferenceType, *weakref.ProxyTypes)
_STOPPED = (io.IOBase, sqlite3.Connection, types.AsyncGeneratorType, Awaitable)
_COMPILED = ("dynamo_ext.", "torch._dynamo.")
_UNCHANGING_MODULES = ("weakref.", "_weakrefset.", "threading.", "_thread.")
_NOTEBOOK_MODULES = ("IPython.", "ipykernel.")
_STOPPED_MODULES = (
    *_UNCHANGING_MODULES,
    *_NOTEBOOK_MODULES,
    *("queue.", "_queue.", "logging.", "multiprocessing.", "_multiprocessing."),
    *("subprocess.", "psutil.", "socket.", "_socket.", "ssl.", "select.", "selectors."),
    *("concurrent.futures.", "asyncio.", "_asyncio.", "zipfile.", "tarfile.", "codecs."),
    *("traitlets.", "comm.", "zmq.", "tornado.", "matplotlib.", "mpl_toolkits."),
    *("torch.multiprocessing.", "torch.distributed.", "torch.profiler.", "torch.autograd.profiler"),
    *("torch.utils.tensorboard.", "tensorboard.", "tensorboardX."),
)


def is_plain(value: object) -> bool:
    """Whether nothing in it is put back: a number, a module that was imported."""
    # `isinstance` would ask the object itself, which a weak proxy passes on.
    kind: Any = type(value)
    if issubclass(kind, types.ModuleType):
        return sys.modules.get(value.__name__) is value  # type: ignore[attr-defined]
    return issubclass(kind, _PLAIN)


def is_stopped(kind: type) -> bool:
    """Whether nothing of a class's objects is put back, since they are not data."""
    if issubclass(kind, (torch.Tensor, torch.nn.Module)):
        return False
    # A backend of the user's own class is data, what holds compiled code is not.
    if kind.__module__.startswith(_COMPILED) or issubclass(kind, _STOPPED):
        return True
    # An iterator of the user's own is an object with attributes like others.
    iterates = issubclass(kind, Iterator) and not any(
        "__next__" in vars(base) and _is_users(base) for base in kind.__mro__
    )
    return iterates or _is_of(kind, _STOPPED_MODULES)


def stays_the_same(kind: type) -> bool:
    """Whether a stopped object is the same to each run: a weak reference, a lock, a compiler."""
    same = kind.__module__.startswith(_COMPILED) or _is_of(kind, _UNCHANGING_MODULES)
    return same and not issubclass(kind, threading.Thread)


def leads_everywhere(value: object) -> bool:
    """Whether all of the notebook can be reached from it: a namespace, a class, the shell."""
    kind = type(value)
    if kind is dict:
        return "__builtins__" in value  # type: ignore[operator]
    return issubclass(kind, (type, types.ModuleType)) or _is_of(kind, _NOTEBOOK_MODULES)


def referents(value: Any) -> list[Any]:
    """What an object holds, or refers to weakly."""
    found = gc.get_referents(value)
    with contextlib.suppress(ReferenceError):
        if issubclass(type(value), weakref.ReferenceType):
            found.append(value())
        elif issubclass(type(value), WEAK):
            # A proxy passes all on, but a method is bound to what it stands for.
            found.append(value.__init__.__self__)
    return found


def _is_of(kind: type, modules: tuple[str, ...]) -> bool:
    return any(f"{base.__module__}.".startswith(modules) for base in kind.__mro__)


def _is_users(kind: type) -> bool:
    """Whether a class is defined in the notebook or in a module of the user's own."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return kind.__module__ == "__main__" or bool(file and not is_library(file))
