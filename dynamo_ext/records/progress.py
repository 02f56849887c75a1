"""How far the candidates of a comparison or a race are, while it goes on."""

from dataclasses import dataclass
from typing import Literal

State = Literal["waiting", "compiling", "elsewhere", "ready", "out"]
Phase = Literal["plain", "compiling", "checking", "timing", "memory", "graphs", "elsewhere"]


@dataclass(frozen=True)
class Standing:
    """How far one candidate is.

    ``elsewhere`` is another process, ``ready`` compiled and right, ``out`` no part any more, for
    ``reason``. ``median`` is seconds a call so far, 0 before it was timed.
    """

    name: str
    state: State = "waiting"
    median: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class RaceProgress:
    """How far all are, and what is done now.

    ``subject`` is the graph that is raced, empty for the code as a whole. ``candidate`` is whose
    turn it is, and ``doing`` what it does, where it says so. ``rounds`` is 0 where their number is
    open. ``left`` is an estimate in seconds.
    """

    subject: str
    phase: Phase
    candidate: str = ""
    standings: tuple[Standing, ...] = ()
    round: int = 0
    rounds: int = 0
    left: float | None = None
    doing: str = ""
