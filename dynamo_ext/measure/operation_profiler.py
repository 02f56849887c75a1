"""What every operation of a captured graph takes in eager, timed one after another.

Engines fuse operations, so inside one there is no time of a single operation. Eager's tells which
of them are worth an engine, and what is lost where one stays out of it.
"""

import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_map_only

from dynamo_ext.backends import effects
from dynamo_ext.backends.pipeline.input_views import root_of
from dynamo_ext.capture.listen.run_log import GraphCalls
from dynamo_ext.formatting import count
from dynamo_ext.interruptions import failures, suppressed
from dynamo_ext.measure.candidate_run import one_line
from dynamo_ext.measure.state.process_state import Surroundings
from dynamo_ext.timing import clock
from dynamo_ext.timing.machine_load import MachineLoad

REPEATS = 7
"""Times that an operation is run, the first of them not counted."""

SHARE = 0.05
"""Seconds that the repeats of one operation may take."""

BUDGET = 5.0
"""Seconds that the repeats of one graph's operations may take."""

_SWITCHES = frozenset({"_set_grad_enabled", "_enter_autocast", "_exit_autocast"})
"""Functions that compute nothing: no engine has them, so no backend can save their time."""


class OperationTimes:
    """Called for every graph call of a run (``RunLog.on_graph_call``) and times each graph once.

    ``on_progress`` gets what is being timed, and an empty text when the run goes on.
    """

    def __init__(self, on_progress: Callable[[str], object] | None = None) -> None:
        self._told = on_progress or (lambda _: None)

    def __call__(self, calls: GraphCalls, graph: GraphModule, args: Sequence[Any]) -> None:
        """Time a graph's operations on the inputs of its first call."""
        if calls.profile_seconds or calls.untimed:
            return
        if effects.holds_transforms(graph):
            # An error in one would leave torch inside it.
            calls.untimed = "It holds transforms of torch.func."
            return
        started = time.perf_counter()
        self._told(f"the times of {count(len(graph.graph.nodes), 'operation')} in eager")
        company = MachineLoad()
        try:
            with company:
                calls.operation_seconds = time_operations(graph, args)
        except failures() as error:  # the call itself follows, and tells what is wrong
            calls.untimed = one_line(error)
        finally:
            calls.profile_seconds = time.perf_counter() - started
            calls.busy_cores = company.cores
            self._told("")


def time_operations(graph: GraphModule, args: Sequence[Any]) -> Mapping[str, float]:
    """Run a captured graph eagerly, operation by operation, and time each.

    It works on copies of all that an operation may change: inputs, weights, random states and
    torch's switches are afterwards as before. What is only read, as most weights, is not copied.

    Returns names of nodes to seconds: the median of up to six runs after a first one. What only
    sets one of torch's modes has none. What cannot simply be run again (in-place changes of shape,
    collectives, operators of other libraries, checkpointed parts) is timed once.

    Raises what an operation raises.
    """
    before = Surroundings()
    timed = _Timed(graph)
    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    try:
        timed.run(*map(timed.own, names, args))
    finally:
        timed.leave_autocast()
        before.restore()
    return timed.seconds


def _changed(graph: GraphModule) -> set[str]:
    """Inputs, and what the graph holds, that an operation may change or add a gradient to."""
    nodes = graph.graph.nodes
    changing = [node for node in nodes if effects.of_node(node).changes]
    if any("backward" in str(node.target) for node in changing):
        return {node.name for node in nodes}
    return {root_of(source).name for node in changing for source in node.all_input_nodes}


class _Timed(Interpreter):
    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        # Not "While executing %node": the error may be shown.
        self.extra_traceback = False
        self.seconds: dict[str, float] = {}
        self._changed = _changed(graph)
        self._wait = clock.device_barrier()
        self._until = time.perf_counter() + BUDGET
        self._autocasts: list[Any] = []

    def run_node(self, n: Node) -> Any:
        if not n.op.startswith("call_"):
            value = super().run_node(n)
            return self.own(n.name, value) if n.op == "get_attr" else value
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        operation = functools.partial(getattr(self, n.op), n.target)
        # What it changes is changed once: repeats have copies of their own.
        kept = _copy((args, kwargs)) if effects.of_node(n).changes else (args, kwargs)
        result, first = self._reading(functools.partial(operation, args, kwargs))
        self._follow_autocast(n, args, result)
        if getattr(n.target, "__name__", "") not in _SWITCHES:
            again = functools.partial(operation, *kept)
            self.seconds[n.name] = self._again(again, first) if _repeats(n, result) else first
        return result

    def own(self, name: str, value: Any) -> Any:
        """What stands for an input, or a tensor that the graph holds."""
        return _copy(value) if name in self._changed else value

    def _reading(self, run: Callable[[], Any]) -> tuple[Any, float]:
        self._wait()
        started = time.perf_counter()
        result = run()
        self._wait()
        return result, time.perf_counter() - started

    def _again(self, run: Callable[[], Any], first: float) -> float:
        most = int(min(SHARE, max(self._until - time.perf_counter(), 0.0)) / max(first, 1e-9))
        counted = []
        # What succeeded once may not be allowed twice: a gradient, for one.
        with suppressed(Exception):
            counted += [self._reading(run)[1] for _ in range(min(REPEATS - 1, most))]
        return statistics.median(counted) if counted else first

    def _follow_autocast(self, node: Node, args: Any, result: Any) -> None:
        name = getattr(node.target, "__name__", "")
        if name == "_enter_autocast":
            self._autocasts.append(result)
        elif name == "_exit_autocast" and args[0] in self._autocasts:
            self._autocasts.remove(args[0])

    def leave_autocast(self) -> None:
        """Leave what an error kept the graph from leaving."""
        for entered in reversed(self._autocasts):
            entered.__exit__(None, None, None)


def _copy(value: Any) -> Any:
    return tree_map_only(
        torch.Tensor, lambda each: each.detach().clone().requires_grad_(each.requires_grad), value
    )


def _repeats(node: Node, result: Any) -> bool:
    """Whether the same operation may simply run again on what it was given."""
    found = result if isinstance(result, (tuple, list)) else (result,)
    if not any(isinstance(value, torch.Tensor) for value in found):
        return False
    target = node.target
    if isinstance(target, str):
        return node.op == "call_method" and not target.endswith("_")
    in_place = getattr(target, "__name__", "").partition(".")[0].endswith("_")
    return effects.is_torchs_own(node) and not in_place
