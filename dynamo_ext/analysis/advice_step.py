"""One step that a report suggests, and the words that steps share."""

from dataclasses import dataclass

MAX_LISTED = 3

NEGLIGIBLE_WEIGHT = 0.1
"""Weights below it are of what need not be changed."""


@dataclass(frozen=True)
class Advice:
    """One step.

    ``topic`` is the kind of situation, ``problem`` what is in the way and why, ``step`` what to do;
    ``evidence`` counts what the record holds, and ``part`` is the title of the report's part that
    shows it. ``weight`` is from 0 (nice to know) to 1 (nothing works before that is done);
    ``seconds`` is what the problem cost in this run, 0 where the record does not have it.
    """

    topic: str
    problem: str
    step: str
    evidence: str
    weight: float
    part: str = "Fallbacks"
    seconds: float = 0.0


def how_often(number: int) -> str:
    """``once``, or ``3 times``."""
    return "once" if number == 1 else f"{number:,} times"


def clause(text: str) -> str:
    """Make the first line of a message one that goes on after a colon."""
    return " ".join(text.split("\n", maxsplit=1)[0].split()).rstrip(". ")
