"""Functions and containers that gain nothing by being captured for each of many calls.

Later runs of the cell on the same backend, with the same options, leave them to Python. Which
graphs are too small is a rule and no measurement: a kernel that runs the same cells again computes
the same bits. Calling compiled code takes some 40 microseconds, and more where autograd records it.
"""

import collections
import contextlib
import types
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.capture.code.source_lines import original_function
from dynamo_ext.capture.listen.run_log import FrameEntry, GraphEntry, RunLog
from dynamo_ext.capture.torch_private import code_cache
from dynamo_ext.capture.torch_private.patches import containers

OPERATIONS, ADDITIONS, CALLS = 8, 4_000_000, 32
"""Operations of a graph, numbers that they add or set, and calls of it in one run."""

_REMEDY = "--capture all has it captured all the same."


def is_small(graph: GraphModule) -> bool:
    """Whether a graph holds few operations on few numbers, as far as its sizes are known."""
    nodes = [node for node in graph.graph.nodes if node.op.startswith("call")]
    return len(nodes) <= OPERATIONS and sum(map(_additions, nodes)) <= ADDITIONS


def _additions(node: Node) -> float:
    """Numbers of the result; of a product, as many for each as a row of its weight has."""
    result, *sources = (each.meta.get("example_value") for each in (node, *node.all_input_nodes))
    if not isinstance(result, torch.Tensor):
        return 0
    sizes = [each.shape for each in (result, *sources) if isinstance(each, torch.Tensor)]
    if not all(isinstance(size, int) for shape in sizes for size in shape):
        return ADDITIONS + 1
    inner = [shape.numel() / shape[0] for shape in sizes[2:] if len(shape) > 1 and shape[0]]
    return result.numel() * max([1, *inner])


@contextlib.contextmanager
def left_in_python(run: RunLog) -> Iterator[None]:
    """A block in which what earlier runs of the cell have left to Python runs there."""
    left = run.left.items()
    codes = {each: of for each, (of, _) in left if isinstance(each, types.CodeType)}
    containers.look_at_them([each for each in run.left if each not in codes])
    for _, frame in run.left.values():
        if frame is not None:
            run.eager_frames[frame.name, frame.file, frame.line] = frame
    try:
        with code_cache.left_to_python(codes):
            yield
    finally:
        containers.look_at_them()


def leave_to_python(run: RunLog) -> None:
    """Have functions whose graphs a run called often for little run in Python from the next on.

    Of a function in parts, another part may be large: then it stays.
    """
    graphs_of = collections.defaultdict[Any, list[GraphEntry]](list)
    for graph in run.calls:
        frame = graph.frame
        module = frame.container() if frame.container else None
        if (frame.container is None or module is not None) and frame.code() is not None:
            graphs_of[code_cache.users_code(frame.code()), module].append(graph)
    for (code, module), graphs in graphs_of.items():
        little = [each for each in graphs if _gains_nothing(each, run)]
        if {each.frame.code() for each in little} == {each.frame.code() for each in graphs}:
            _leave(code, module, little, run)


def _gains_nothing(graph: GraphEntry, run: RunLog) -> bool:
    often = graph.frame.name != "<module>" and run.calls[graph].count >= CALLS
    return often and (graph.is_small or graph.is_left_to_python)


def _leave(code: types.CodeType, module: Any, graphs: list[GraphEntry], run: RunLog) -> None:
    first, often = graphs[0], max(run.calls[each].count for each in graphs)
    why = "each time for a few operations on few numbers"
    if first.is_left_to_python:
        why = "and whose loop gains nothing by captured calls"
    name = f"`{first.frame.name}`"
    reason = f"{name} runs in Python after a run that called it {often:,} times, {why}"
    for frame in {each.frame for each in graphs if module is not None}:
        # Its code is every container's, and runs what fits.
        code_cache.forget_version(code, frame.rewritten() if frame.rewritten else None)
    # What a function in parts calls between them may have large graphs.
    alone = any(each.frame.breaks and not each.is_left_to_python for each in graphs)
    note(code, module, (not alone, reason), run)


def note(code: types.CodeType, module: Any, left: tuple[bool, str], run: RunLog) -> None:
    """Have a run leave a function or a container to Python: whether with what it calls, and why."""
    callees, reason = left
    name = original_function(code.co_name)
    frame = FrameEntry("", name, code.co_filename, code.co_firstlineno, weakref.ref(code))
    frame.outcome, frame.reason = "skipped", reason
    frame.fell_back("", reason, _REMEDY, harmless=True)
    run.left[code if module is None else module] = callees, frame
    run.eager_frames[frame.name, frame.file, frame.line] = frame
