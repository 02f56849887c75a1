"""How often a call goes from an engine to eager and back."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any
from unittest import mock

from dynamo_ext.backends import journal as journals
from dynamo_ext.backends.pipeline import compilation, partition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamo_ext.backends.journal import Journal


class Cuts:
    """Where graphs were cut up, to count how often a call goes from engine to eager and back.

    A record keeps a graph's partitions but not their order, so this looks at each split.
    """

    def __init__(self) -> None:
        self._found: list[tuple[Journal, list[str]]] = []

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at splits that are made meanwhile."""

        def split(graph: Any, *rest: Any) -> Any:
            found = partition.split(graph, *rest)
            steps = [
                str(node.target).replace("part_", "inference_")
                if node.op == "call_module"
                else "eager"
                for node in graph.graph.nodes
                if partition.computes(node)
            ]
            self._found.append((journals.current(), steps))
            return found

        with mock.patch.object(compilation, "split", split):
            yield

    def switches(self) -> int:
        """Changes between an engine and eager, or between two engine parts, in one call."""
        total = 0
        for journal, steps in self._found:
            known = journal.partitions
            ran = [s if s in known and known[s].engine != "eager" else "eager" for s in steps]
            total += sum(a != b for a, b in itertools.pairwise(ran))
        return total
