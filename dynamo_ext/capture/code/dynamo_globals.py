"""Dynamo's own names, kept out of the user's namespace while no cell's compiled code runs.

Compiled code finds its graphs, resume functions and guard helpers by name in the globals of its
function, which in a notebook are the user's namespace. Outside of cells these names wait among
Python's builtins, where compiled code that is called another way still finds them.
"""

import atexit
import builtins
import contextlib
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

from dynamo_ext.capture.torch_private import code_cache

_BUILTINS = MappingProxyType(builtins.__dict__)


class HiddenNames:
    """The names that Dynamo installed in one namespace on our behalf."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._ours: set[str] = set()
        # Python empties the builtins before the last compiled code dies, which then misses them.
        atexit.register(self.forget)

    @contextlib.contextmanager
    def watching(self, namespace: dict[str, Any]) -> Iterator[None]:
        """Take the names that appear during the block (one frame's compile) for Dynamo's."""
        if namespace is not self._namespace:
            yield
            return
        before = set(namespace)
        try:
            yield
        finally:
            self._ours |= namespace.keys() - before

    @contextlib.contextmanager
    def present(self) -> Iterator[None]:
        """Have the names in the namespace for the block, and nowhere in it afterwards."""
        self._move(builtins.__dict__, self._namespace)
        try:
            yield
        finally:
            self._move(self._namespace, builtins.__dict__)

    def forget(self) -> None:
        """Take the names out of Python's builtins, once no compiled code is left to need them."""
        self._move(builtins.__dict__, {})
        self._ours.clear()

    def close(self) -> None:
        """``forget``, for good."""
        self.forget()
        atexit.unregister(self.forget)

    def _move(self, source: dict[str, Any], target: dict[str, Any]) -> None:
        # A name whose compiled code has died is gone from where it was.
        self._ours &= source.keys()
        for name in self._ours:
            value = source[name]
            # Dynamo names the builtins too. A dict that held itself would have no end for code that
            # walks through it, as torch's tracing does at some graph breaks.
            if value is builtins.__dict__ and target is builtins.__dict__:
                value = _BUILTINS
            elif value is _BUILTINS:
                value = builtins.__dict__
            # In this order: another thread may be about to look the name up.
            target[name] = value
            del source[name]
        code_cache.move_cleanup(self._ours, source, target)
