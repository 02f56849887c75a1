"""Dynamo's own names, kept out of the user's namespace while no compiled code needs them.

Compiled code finds its graphs, resume functions and guard helpers by name in the globals of the
function it came from; for a cell that is the user's namespace. They are put there while compiled
segments run, and taken out again afterwards.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from dynamo_ext.capture import torch_private

if TYPE_CHECKING:
    from collections.abc import Iterator


class HiddenNames:
    """The names that Dynamo installed in one namespace on our behalf."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._hidden: dict[str, Any] = {}
        self._ours: set[str] = set()

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
        self._namespace.update(self._hidden)
        torch_private.move_cleanup(self._hidden, self._hidden, self._namespace)
        self._hidden = {}
        try:
            yield
        finally:
            # A name whose compiled code died meanwhile is gone from the namespace already.
            self._ours &= self._namespace.keys()
            self._hidden = {name: self._namespace.pop(name) for name in self._ours}
            torch_private.move_cleanup(self._hidden, self._namespace, self._hidden)
