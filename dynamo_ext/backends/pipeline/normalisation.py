"""AOTAutograd's graph of a captured one: from disk where it was made before, for inference alone.

A later process, or another backend with the same decompositions, has ``relu(linear(x, w, b))`` as
``permute``, ``addmm``, ``relu`` without tracing it. What AOTAutograd does at each call (copies into
inputs, views of results) is not kept, so a graph for which it does anything has no entry.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from dynamo_ext.backends import disk_cache
from dynamo_ext.backends.graph_key import captured_key
from dynamo_ext.backends.support import graph_text
from dynamo_ext.backends.support.engine_store import EngineStore, warn
from dynamo_ext.backends.support.support_cache import digest_of_code, surroundings
from dynamo_ext.backends.torch_private import aot, decompositions
from dynamo_ext.interruptions import failures, suppressed
from dynamo_ext.records.graph import PartitionRole
from dynamo_ext.torch_private import dispatch


def store() -> EngineStore:
    """Where normalised graphs are kept."""
    return EngineStore(disk_cache.folder() / "graphs")


def normalised(
    graph: GraphModule,
    inputs: Sequence[Any],
    stage: aot.Stage,
    table: decompositions.Decompositions,
) -> Callable[..., Any]:
    """A captured graph whose ATen graphs ``stage`` compiles, as ``aot.aot_compile`` makes it.

    Raises ``StayEager`` where AOTAutograd would give another function.
    """
    decompositions.refuse_wrong_cuts(graph)
    kept, key = store(), None
    # A graph that has no key is traced each time.
    with suppressed(Exception):
        facts = _place(), aot.settings(), aot.marks(graph), _digest(tuple(table.items()))
        key = captured_key(graph, inputs, facts)
    names = dict(enumerate(node.name for node in graph.graph.nodes))
    if key and (text := kept.find(key)):
        try:
            static, _, operations = text.decode().partition("\n")
            traced = aot.Facts(json.loads(static))
            made = graph_text.read(operations, names)
        except failures() as error:  # it is traced again
            kept.forget(key)
            warn(f"a normalised graph cannot be read ({error})")
        else:
            return aot.without_gradients(stage(made, "inference", traced))

    def noted(made: GraphModule, role: PartitionRole, facts: aot.Facts) -> Callable[..., Any]:
        if key and role == "inference" and facts.plain:
            places = {name: place for place, name in names.items()}
            # AOTAutograd is at work in a mode of its own.
            with suppressed(Exception), dispatch.outside_modes():
                operations = graph_text.written(made, places)
                kept.keep(key, f"{json.dumps([*facts.static_inputs])}\n{operations}".encode())
        return stage(made, role, facts)

    return aot.aot_compile(graph, inputs, noted, table)


@functools.cache
def _place() -> str:
    """Our code, torch's and the machine."""
    return repr([digest_of_code("backends", "torch_private"), *surroundings(())])


@functools.lru_cache(maxsize=16)
def _digest(table: tuple[tuple[Any, Any], ...]) -> str:
    """A digest of a table's names: it has a thousand, and every small graph needs it."""
    named = ((operator, getattr(function, "func", function)) for operator, function in table)
    lines = sorted(f"{operator} {cut.__module__}.{cut.__qualname__}" for operator, cut in named)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
