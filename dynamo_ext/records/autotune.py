"""The race of one graph's backends."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GraphCandidateResult:
    """One backend in the race for a graph.

    ``outcome`` is ``won``, ``slower``, ``same`` (no faster than eager within noise), ``eager``
    (nothing of it ran in the engine), ``wrong``, ``failed`` or ``crashed``. ``seconds`` is the
    median of one call, ``speedup`` over eager with its 95 % interval, ``error`` the largest
    relative error against eager; 0.0 where not measured.
    """

    backend: str
    outcome: str
    seconds: float = 0.0
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0
    error: float = 0.0
    reason: str = ""


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
    remembered, and ``note`` says why.
    """

    winner: str
    contestants: tuple[GraphCandidateResult, ...] = ()
    remembered: bool = False
    raced_on: str = ""
    rounds: int = 0
    seconds: float = 0.0
    note: str = ""
    confirmation: OnlineTrial | None = None
    conclusive: bool = True
