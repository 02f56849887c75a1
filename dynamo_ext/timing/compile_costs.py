"""Seconds that compiling a graph takes, by what it took here before."""

_LOADING = 3.0
"""Seconds that a backend takes before its first graph."""

_WHOLE, _IN_PARTITIONS = (0.7, 0.03), (0.3, 0.01)
"""Seconds for each graph whatever its size, and for each operation: by a compiler that takes a
graph whole, and makes code for it, and by an engine with kernels of its own."""

_LEARNT = 50
"""Operations that were compiled here, after which what they took counts as much as these."""

seen: dict[str, tuple[int, float, int, float]] = {}
"""By backend: operations and seconds of the graphs after its first one, and those of the last."""


def expected(name: str, operations: int, *, whole: bool) -> float:
    """Seconds that a backend takes to compile a graph; ``whole`` says whether it takes it whole."""
    graph, each = _WHOLE if whole else _IN_PARTITIONS
    known, took, last, seconds = seen.get(name, (0, 0.0, 1, 0.0))
    usual = graph + operations * (_LEARNT * each + took) / (_LEARNT + known)
    return max(usual + _LOADING * (name not in seen), seconds * min(operations / last, 1))


def note(name: str, operations: int, seconds: float, *, whole: bool) -> float:
    """Take down what compiling a graph took; seconds of it that a second one would not take.

    The first graph tells nothing of an operation: Inductor's takes 10 s for three of them.
    """
    graph, each = _WHOLE if whole else _IN_PARTITIONS
    beyond = max(seconds - graph, 0.0)
    if name not in seen:
        seen[name] = 0, 0.0, 1, 0.0
        return max(beyond - operations * each, 0.0)
    known, took, *_ = seen[name]
    seen[name] = known + operations, took + beyond, max(operations, 1), seconds
    return 0.0
