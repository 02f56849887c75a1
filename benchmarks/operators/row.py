"""One line of the operator sweep: what an engine did with one sample of an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.operators.known import accepted
from benchmarks.stored_row import StoredRow

Verdict = Literal[
    "right", "partly", "eager", "failed", "uncaptured", "unsampled", "wrong", "crash", "timeout"
]
FAULTS: tuple[Verdict, ...] = ("wrong", "crash", "timeout")
"""What must never be: the user would not get eager's result."""


@dataclass(frozen=True)
class Row(StoredRow):
    """A sample of an operator under an engine, with the first-call check of the engine off.

    ``verdict``: ``right`` all operations ran in the engine and gave eager's result; ``partly``
    some did; ``eager`` the engine refused them all ahead of lowering; ``failed`` it took some and
    raised later, so that eager took over; ``uncaptured`` no operation reached it (torch could not
    capture the operator, or nothing is left of it after normalisation); ``unsampled`` eager itself
    raised; ``wrong`` the result differs from eager's; ``crash`` the process died; ``timeout`` it
    did not come back. ``reason`` says more about any but the first. ``blame`` of a wrong result
    is ``engine``; ``normalisation`` where the normalised graph is as wrong in eager; ``torch``
    where torch's own ``aot_eager`` is wrong too, which has no part of ours in it.
    ``operations`` counts those of the normalised graph, ``in_engine`` those that the engine ran.
    """

    engine: str
    operator: str
    dtype: str
    sample: int
    verdict: Verdict
    reason: str = ""
    blame: str = ""
    operations: int = 0
    in_engine: int = 0
    seconds: float = 0.0

    @property
    def fault(self) -> bool:
        """Whether we, or an engine, are to blame for what must never be and is not accepted."""
        blamed = self.verdict in FAULTS and self.blame != "torch"
        return blamed and not (self.verdict == "wrong" and accepted(self.engine, self.operator))

    @property
    def key(self) -> str:
        """What tells this row from the others of its engine."""
        return case_key(self.operator, self.dtype, self.sample)


def case_key(operator: str, dtype: str, sample: int) -> str:
    """The key of a row that may not be there yet."""
    return f"{operator} {dtype} {sample}"
