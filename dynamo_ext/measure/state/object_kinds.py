"""Kinds of objects by what can be put back of them: nothing that changes, or nothing at all."""

import io
import queue
import random
import socket
import sqlite3
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

WITHOUT_A_WAY_BACK = (
    *(io.IOBase, Iterator, types.CoroutineType),
    # A pool of threads has its work in such a queue.
    *(queue.SimpleQueue, socket.socket, sqlite3.Connection),
)

_PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis)),
    *(torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format),
    *(types.BuiltinFunctionType, types.CodeType, types.GetSetDescriptorType),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.MemberDescriptorType),
    *(property, staticmethod, classmethod, np.generic, np.dtype, random.SystemRandom),
)


def is_plain(value: object) -> bool:
    """Whether nothing in it is put back: a number, a module that was imported, the shell."""
    if isinstance(value, types.ModuleType):
        return sys.modules.get(value.__name__) is value
    return isinstance(value, (_PLAIN, _shell_class()))


def _shell_class() -> Any:
    """IPython's class of shells, if it is loaded: a shell leads to all there is, and to ours."""
    return getattr(sys.modules.get("IPython.core.interactiveshell"), "InteractiveShell", ())
