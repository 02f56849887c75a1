"""A user's error inside a compiled graph, raised again from the user's own line.

Inside a compiled graph, names that the frame stored before the error are not stored yet, and the
error may be the engine's own. Dynamo applies a frame's effects only after its graph has run, so
running the original code eagerly from the frame's arguments gives just what a plain cell gives:
the same exception, line, and everything assigned before it.
"""

from __future__ import annotations

import dis
import re
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamo_ext.capture import recorder
from dynamo_ext.capture.source_lines import original_function

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.fx import GraphModule

_EFFECTS = frozenset(
    {"STORE_GLOBAL", "STORE_ATTR", "STORE_SUBSCR", "DELETE_ATTR", "DELETE_SUBSCR", "DELETE_GLOBAL"}
)
_MUTATING_FUNCTIONS = frozenset({"setitem", "iadd", "isub", "imul", "itruediv", "iand", "ior"})


def mutates_inputs(graph: GraphModule) -> bool:
    """Whether running the captured graph a second time could apply an in-place change twice."""
    for node in graph.graph.nodes:
        if "out" in node.kwargs or node.kwargs.get("inplace"):
            return True
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if node.op == "call_method" and name.endswith("_") and not name.endswith("__"):
            return True
        if node.op == "call_function" and (
            name in _MUTATING_FUNCTIONS or (name.endswith("_") and not name.endswith("__"))
        ):
            return True
    return False


_DRAWS = re.compile(
    r"rand|dropout|bernoulli|multinomial|normal|uniform|exponential|geometric|poisson|cauchy"
    r"|gumbel|rrelu|attention"
)


def draws_numbers(graph: GraphModule) -> bool:
    """Whether a captured graph may draw random numbers, which a second run would draw anew."""
    return any(
        node.op == "call_module"
        or _DRAWS.search(
            node.target
            if isinstance(node.target, str)
            else getattr(node.target, "__name__", str(node.target))
        )
        for node in graph.graph.nodes
        if node.op.startswith("call")
    )


def run_original(
    original: types.CodeType, names: Mapping[str, Any], namespace: dict[str, Any]
) -> Any:
    """Run a frame's original code as plain Python from the arguments it was entered with."""
    count = original.co_argcount + original.co_kwonlyargcount
    positional = [names[n] for n in original.co_varnames[: original.co_argcount]]
    keywords = {n: names[n] for n in original.co_varnames[original.co_argcount : count]}
    rest = original.co_varnames[count:]
    if original.co_flags & 0x04:  # CO_VARARGS
        positional += list(names[rest[0]])
        rest = rest[1:]
    if original.co_flags & 0x08:  # CO_VARKEYWORDS
        keywords.update(names[rest[0]])
    closure = tuple(
        types.CellType(names[n]) if n in names else types.CellType() for n in original.co_freevars
    )
    function = types.FunctionType(original, namespace, original.co_name, None, closure)
    return function(*positional, **keywords)


@dataclass(frozen=True)
class Untouched:
    """A frame that failed before any of its effects: its original code and what it began with."""

    code: types.CodeType
    names: dict[str, Any]
    namespace: dict[str, Any]

    def run(self) -> Any:
        """Run it as plain Python from its beginning."""
        return run_original(self.code, self.names, self.namespace)


def failed_before_effects(traceback: types.TracebackType | None) -> Untouched | None:
    """The rewritten frame that raised, where running it again from the start repeats nothing.

    A mistyped method of a tensor fails in rewritten code that puts values back on the stack, just
    before it stores the names that the graph computed.
    """
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return None
    frame = traceback.tb_frame
    entry = recorder.entry_of_rewritten(frame.f_code)
    original = entry.code() if entry is not None else None
    if entry is None or original is None or original_function(original.co_name) != "<module>":
        return None
    graphs = [reference() for reference in entry.graphs]
    if any(graph is None or graph.mutates for graph in graphs):
        return None
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset >= traceback.tb_lasti:
            return Untouched(original, dict(frame.f_locals), frame.f_globals)
        if instruction.opname in _EFFECTS:
            return None
    return None


REPLAY_CODE = run_original.__code__
