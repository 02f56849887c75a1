"""Which candidates of a race can pay: what compiling takes, against what a graph's calls take."""

from dynamo_ext.backends import precision, registry
from dynamo_ext.backends.base import fact

RUNS = 100
"""Runs of the code within which a candidate has to repay its compiling."""

_LOADING, _GRAPH = 3.0, 0.3
"""Seconds that a backend takes before its first graph, and for each graph whatever its size."""

_WHOLE, _IN_PARTITIONS = 0.03, 0.01
"""Seconds of compiling an operation where nothing was compiled here yet: by a compiler that takes a
graph whole, and makes code for it, and by an engine with kernels of its own."""

_seen: dict[str, float] = {}


def expected(name: str, operations: int) -> float:
    """Seconds that compiling a graph takes, by what an operation took here before."""
    if name in _seen:
        return _GRAPH + operations * _seen[name]
    whole = fact(registry.get(precision.split(name)[0]), "whole_graph")
    return _LOADING + _GRAPH + operations * (_WHOLE if whole else _IN_PARTITIONS)


def note(name: str, operations: int, seconds: float) -> None:
    """Take down what compiling a graph took."""
    loading = 0.0 if name in _seen else _LOADING
    _seen[name] = max(seconds - loading - _GRAPH, 0.0) / max(operations, 1)


def reason(name: str, operations: int, eager_seconds: float) -> str:
    """Why a candidate cannot pay; nothing where it can.

    ``eager_seconds`` are those of the graph's calls in one run in eager.
    """
    seconds = expected(name, operations)
    if seconds <= RUNS * eager_seconds:
        return ""
    return (
        f"Compiling it takes some {seconds:.1f} s, and {RUNS} runs of the graph in eager "
        f"{RUNS * eager_seconds:.1f} s."
    )
