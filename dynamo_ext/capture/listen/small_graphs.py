"""Functions whose graphs are too small to be captured for each of many calls.

A rule and no measurement: a kernel that runs the same cells again computes the same bits. Calling
compiled code takes some 40 microseconds, and more where autograd records it.
"""

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.capture.listen.run_log import RunLog
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


def leave_to_python(run: RunLog) -> None:
    """Have what a run called often with small graphs run in Python from the next run on."""
    for graph, calls in run.calls.items():
        frame, code = graph.frame, graph.frame.code()
        if calls.count < CALLS or not (graph.is_small or graph.is_left_to_python) or code is None:
            continue
        # Of a function in parts, the other parts may be large.
        if frame.name == "<module>" or frame.breaks or code_cache.users_code(code) is not code:
            continue
        frame.outcome = "skipped"
        why = "each time for a few operations on few numbers"
        if graph.is_left_to_python:
            why = "and whose loop gains nothing by captured calls"
        frame.reason = (
            f"`{frame.name}` runs in Python after a run that called it {calls.count:,} times, {why}"
        )
        frame.fell_back("", frame.reason, _REMEDY, harmless=True)
        if frame.container is None:
            code_cache.leave_to_python(code)
        elif (module := frame.container()) is not None:
            containers.leave_to_python(module)
            code_cache.forget_version(code, frame.rewritten() if frame.rewritten else None)
