"""The race of one graph's backends, and what a bound of accuracy comes to over all graphs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GraphCandidateResult:
    """One backend in the race for a graph.

    ``outcome`` is ``won``, ``slower``, ``same`` (no faster than eager within noise), ``eager``
    (nothing of it ran in the engine), ``wrong``, ``failed``, ``crashed`` or ``not raced``.
    ``seconds`` is the median of one call, ``speedup`` over eager with its 95 % interval, ``error``
    the largest relative error against eager; 0.0 where not measured. ``version`` is the engine's,
    in a race that is remembered.
    """

    backend: str
    outcome: str
    seconds: float = 0.0
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0
    error: float = 0.0
    reason: str = ""
    version: str = ""


@dataclass(frozen=True)
class BaselineComparison:
    """What the winners of races were timed against together: eager, or one backend for all.

    ``speedup`` is how many times faster the winners were, with its 95 % interval.
    """

    name: str
    speedup: float
    low: float
    high: float


@dataclass(frozen=True)
class OnlineTrial:
    """Graphs that run one after another, timed together in the user's calls after their races.

    ``graphs`` counts them; ``kept`` is ``mix`` (each its own winner) or the rival that was faster;
    ``rounds`` says how often each was timed, at most: one that was clearly slower has fewer.
    """

    graphs: int
    kept: str
    rounds: int
    rivals: tuple[BaselineComparison, ...] = ()


@dataclass(frozen=True)
class GraphRace:
    """How ``auto`` chose the backend of a graph.

    ``remembered`` says that it was not raced but known from an earlier race, made ``raced_on``
    (a date). ``seconds`` is what the race took, compiling every candidate included.
    ``confirmation`` is there once the winner was timed in the user's own calls, together with
    those of the graphs that run before and after this one. What was not ``conclusive`` is not
    remembered, and ``note`` says why. Without ``contestants`` nothing was raced.
    """

    winner: str
    contestants: tuple[GraphCandidateResult, ...] = ()
    remembered: bool = False
    raced_on: str = ""
    seconds: float = 0.0
    note: str = ""
    confirmation: OnlineTrial | None = None
    conclusive: bool = True


@dataclass(frozen=True)
class EndToEnd:
    """Whether a bound of accuracy holds for the results of a whole cell, before they are used.

    ``reached`` is the bound's metric for the result that is farthest from ``reference``
    (``float64``, or ``eager`` where the code does not run in it), with what runs now. ``inputs``
    counts the other inputs that it was checked on; 0 where it was the cell's own.
    ``lowered`` are the ids of the graphs that compute in a lower precision, ``kept_full`` of those
    that went back to float32, since ``reached`` was ``missed`` with them, or since nothing else
    judges them. ``unchecked`` are ids of lowered graphs that the check has not had. ``lack`` says
    why there was no check. ``seconds`` is what it took, without compiling and racing the graphs of
    the cell's own inputs; ``earlier``: it was made before an earlier run.
    """

    bound: str
    reference: str = ""
    reached: float | None = None
    missed: float | None = None
    inputs: int = 0
    lowered: tuple[str, ...] = ()
    kept_full: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    lack: str = ""
    seconds: float = 0.0
    earlier: bool = False
