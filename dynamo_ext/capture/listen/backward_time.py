"""How long the compiled backward passes of captured graphs take, which autograd runs.

A graph that AOTAutograd compiled, or each part of one, is a node there, with a hook before it and
one after. What eager computes between parts is not in the sum.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from dynamo_ext.capture.listen import double_backward, run_log
from dynamo_ext.capture.listen.run_log import GraphCalls, GraphEntry, RunLog
from dynamo_ext.capture.torch_private import compile_metrics
from dynamo_ext.timing import first_run


def follow(result: Any, entry: GraphEntry, counted: GraphCalls, run: RunLog) -> None:
    """Have the backward pass that may follow a call, which gave ``result``, counted with it."""
    if not torch.is_grad_enabled():
        return
    outputs = result if isinstance(result, (tuple, list)) else (result,)
    tensors = (value for value in outputs if isinstance(value, torch.Tensor))
    nodes = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    if not nodes:
        return
    compiled = [n for n in dict.fromkeys(nodes) if type(n).__name__ == "CompiledFunctionBackward"]
    if not compiled:
        counted.backward_untimed = True
    for node in compiled:
        _time(node, entry, counted, run)


def _time(node: Any, entry: GraphEntry, counted: GraphCalls, run: RunLog) -> None:
    """Have each run of a node of autograd's counted."""
    started, metrics, spent = 0.0, None, 0.0

    def start(_: Any) -> None:
        nonlocal started, metrics, spent
        metrics, spent = compile_metrics.latest_metrics(), first_run.current().spent
        started = time.perf_counter()

    def stop(gradients: Any, _: Any) -> None:
        double_backward.explain(gradients)
        taken = time.perf_counter() - started
        if run_log.active_run() is not run:
            return
        # Torch compiles the backward graph when it is first needed.
        compiling = min(compile_metrics.backward_compile_seconds(metrics), taken)
        run.compile_seconds += compiling
        entry.compile_seconds += compiling
        given = first_run.current()
        if (uncounted := compiling - (given.spent - spent)) > 0:
            given.count(uncounted)
        counted.backward_seconds += taken - compiling
        if not entry.is_trained:
            entry.is_trained = True
            entry.paired.clear()
            entry.cold_pairs = None

    # With `retain_graph`, the node runs more than once.
    node.register_prehook(start)
    node.register_hook(stop)
