"""How long the compiled backward passes of captured graphs take, which no call of ours makes.

Autograd runs them, from the user's ``backward()``. A graph that AOTAutograd compiled is one node
there, with a hook before it and one after; of any other graph, each operation is a node.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from dynamo_ext.capture.listen import run_log
from dynamo_ext.capture.torch_private import compile_metrics

if TYPE_CHECKING:
    from dynamo_ext.capture.listen.run_log import GraphCalls, GraphEntry, RunLog


def follow(result: Any, entry: GraphEntry, counted: GraphCalls, run: RunLog) -> None:
    """Have the backward pass that may follow a graph's call counted with it, in the same run.

    Parameters
    ----------
    result
        What the call gave.
    entry, counted
        The graph, and its counter in ``run``.
    run
        The run that the call was made in.
    """
    if not torch.is_grad_enabled():
        return
    outputs = result if isinstance(result, (tuple, list)) else (result,)
    tensors = (value for value in outputs if isinstance(value, torch.Tensor))
    nodes = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    if not nodes:
        return
    node = compile_metrics.compiled_backward(nodes)
    if node is None:
        counted.backward_untimed = True
        return
    stopwatch = _Stopwatch(entry, counted, run)
    node.register_prehook(stopwatch.start)
    node.register_hook(stopwatch.stop)


class _Stopwatch:
    """The two hooks of one node, which may run more than once (``retain_graph``)."""

    def __init__(self, entry: GraphEntry, counted: GraphCalls, run: RunLog) -> None:
        self._entry = entry
        self._counted = counted
        self._run = run
        self._started = 0.0
        self._metrics: Any = None

    def start(self, _: Any) -> None:
        self._metrics = compile_metrics.latest_metrics()
        self._started = time.perf_counter()

    def stop(self, *_: Any) -> None:
        taken = time.perf_counter() - self._started
        if run_log.active_run() is not self._run:
            return
        # Torch compiles the backward graph when it is first needed.
        compiling = min(compile_metrics.backward_compile_seconds(self._metrics), taken)
        self._run.compile_seconds += compiling
        self._entry.compile_seconds += compiling
        self._counted.backward_seconds += taken - compiling
