"""The records of a comparison: several backends on one piece of code, measured.

All times are seconds, all sizes bytes. ``Comparison.to_dict`` and ``from_dict`` go to JSON and
back.
"""

import dataclasses
import math
import statistics
from dataclasses import dataclass
from typing import Any, Literal, Self

from dynamo_ext.records.common import FULL, CodeBlock, structured
from dynamo_ext.records.machine import MachineLimits, Work
from dynamo_ext.records.report import Report

SCHEMA_VERSION = 2

SMALLEST_DIFFERENCE = 0.02
"""Below it two timings are called the same, whatever their interval."""

CONFIDENCE = 0.95
"""Of the intervals of speedups."""

FEWEST_ROUNDS = 6
"""The fewest rounds that have an interval of 95 %: fewer rounds have no verdict."""

USUAL_ROUNDS = 20
"""Rounds that a comparison has at least, unless a number is given."""

BUSY_CORES = 0.5
"""Cores that other programs kept busy on average, from which on times decide nothing."""

FASTER_AT_FIRST = 1.5
"""How many times faster a first call without a compiler may be than the median of later ones."""

UNCLEAR_BEYOND = 0.1
"""Where an interval goes on beyond this, no difference was found because none could be."""

Outcome = Literal["measured", "eager", "wrong", "failed", "unavailable", "unmeasured"]
Verdict = Literal[
    "baseline", "faster", "slower", "same", "unclear", "eager", "wrong", "failed", "none"
]

_WORDS: dict[Outcome, Verdict] = {
    "measured": "none",
    "unmeasured": "none",
    "eager": "eager",
    "wrong": "wrong",
    "failed": "failed",
    "unavailable": "failed",
}


def verdict_of(ratio: float, low: float, high: float) -> Verdict:
    """What a ratio and the ends of its interval come to, in one word.

    ``faster`` and ``slower`` where the interval is on one side of 1, and the ratio 2 % and more
    from it; else ``same``, or ``unclear`` where the interval goes on beyond 10 %.
    """
    small = abs(math.log(ratio)) < math.log1p(SMALLEST_DIFFERENCE)
    if not (small or low <= 1 <= high):
        return "faster" if ratio > 1 else "slower"
    farthest = max(math.log(high), -math.log(low))
    return "unclear" if farthest > math.log1p(UNCLEAR_BEYOND) else "same"


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, once for each round.

    ``calls`` is how many calls each sample averages over (more than one for very short code).
    """

    samples: tuple[float, ...]
    calls: int = 1

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.samples)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and third quartile: the spread that the middle half of the rounds has."""
        if len(self.samples) < 2:  # noqa: PLR2004 - one sample has no spread
            return (self.samples[0], self.samples[0])
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (low, high)


@dataclass(frozen=True)
class Speedup:
    """How many times faster than the baseline: the median over rounds of paired ratios.

    ``low`` and ``high`` bound the interval of the sign test, with ``CONFIDENCE``.
    """

    ratio: float
    low: float
    high: float
    rounds: int

    @property
    def too_few(self) -> bool:
        """Whether there were too few rounds to tell anything."""
        return self.rounds < FEWEST_ROUNDS

    @property
    def half_width(self) -> float:
        """Half the width of the interval (0.01: ±1 %); infinite for too few rounds."""
        return math.inf if self.too_few else math.log(self.high / self.low) / 2

    @property
    def verdict(self) -> Verdict:
        """What it comes to, in one word; ``unclear`` for too few rounds."""
        return "unclear" if self.too_few else verdict_of(self.ratio, self.low, self.high)


@dataclass(frozen=True)
class Accuracy:
    """A candidate's results against one reference's.

    ``reference`` is ``eager``, ``float32`` (eager before ``--dtype``) or ``float64``. ``cosine`` is
    over all floating results laid end to end; ``max_rel`` is relative to the largest element of a
    tensor. ``sqnr`` is the signal-to-noise ratio in decibels over all of them, 400 where they are
    equal; ``top1`` the share of rows (along the last dimension) whose largest element is in the
    same place; ``None`` where there is none. ``within`` is the verdict by dtype; against float64,
    that it is not much farther from it than eager is, which decides where eager's results disagree;
    of a lower precision, that the root mean square error of each result, relative to its size, is
    at most ``bound``. ``reached`` is the metric of the user's own bound for the result that is
    farthest off. ``detail`` names what disagrees.
    """

    reference: str
    cosine: float
    max_abs: float
    max_rel: float
    within: bool
    outputs: int
    dtype: str = ""
    detail: str = ""
    sqnr: float | None = None
    top1: float | None = None
    bound: float | None = None
    reached: float | None = None


@dataclass(frozen=True)
class CandidateResult:
    """One row of a comparison.

    ``outcome`` is ``measured``; ``eager`` (no operation ran in the engine, whatever the clock
    says); ``wrong``; ``failed`` or ``unavailable`` with ``reason`` and ``remedy``; or
    ``unmeasured`` where time ran out. ``operations`` counts the captured graphs' normalised
    operations and ``in_engine`` those that an engine took. ``program`` is the line by which a
    program compiles a model so, where there is one. ``peak_bytes`` is the high-water mark of one
    call above what was there before it, ``None`` where it cannot be read. ``precision`` is
    what the backend was asked to compute in, or what those compute in that ``auto`` has chosen
    (``bf16+float32``), and ``lowered`` how many operations of products of a run are computed in a
    lower one, where this is known.
    """

    name: str
    backend: str
    outcome: Outcome
    reason: str = ""
    remedy: str = ""
    timing: Timing | None = None
    speedup: Speedup | None = None
    first_call_seconds: float = 0.0
    compile_seconds: float = 0.0
    peak_bytes: int | None = None
    operations: int = 0
    in_engine: int = 0
    graphs: int = 0
    breaks: int = 0
    fallbacks: int = 0
    accuracy: tuple[Accuracy, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    program: str = ""
    precision: str = ""
    lowered: float | None = None
    report: Report | None = None


@dataclass(frozen=True)
class GraphTime:
    """One captured graph on one backend."""

    backend: str
    outcome: Outcome
    timing: Timing | None = None
    speedup: Speedup | None = None
    reason: str = ""


@dataclass(frozen=True)
class GraphComparison:
    """One captured graph on every candidate; ``fastest`` is the best right one's name."""

    graph: str
    operations: int
    calls: int
    times: tuple[GraphTime, ...]
    fastest: str = ""
    source: str = ""


@dataclass(frozen=True)
class Mix:
    """The best backend for each graph, raced end to end.

    ``predicted`` is the speedup that the sum of the graphs' gains promises; ``speedup`` what the
    whole code then showed. ``holds`` says whether the second bears the first out.
    """

    choice: tuple[tuple[str, str], ...]
    predicted: float
    speedup: Speedup | None = None
    holds: bool = False


@dataclass(frozen=True)
class Comparison:
    """Several backends on one cell, function or module.

    ``partial`` says that the budget ended it before the fewest rounds that it needs, or an
    interrupt did (``interrupted``). ``notes`` are sentences
    about what the reader should know: state that could not be restored, effects outside. ``work``
    is what a run asks of the machine, and ``machine`` what that can do, where it was measured.
    ``busy_cores`` is how many cores other programs kept busy on average meanwhile.
    """

    title: str
    baseline: str
    candidates: tuple[CandidateResult, ...]
    cell: CodeBlock | None = None
    graphs: tuple[GraphComparison, ...] = ()
    mix: Mix | None = None
    rounds: int = 0
    seconds: float = 0.0
    budget: float = 0.0
    seed: int = 0
    dtype: str = ""
    train: bool = False
    isolated: bool = False
    partial: bool = False
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    device: str = ""
    threads: int = 0
    versions: tuple[tuple[str, str], ...] = ()
    work: Work | None = None
    machine: MachineLimits | None = None
    busy_cores: float = 0.0
    schema: int = SCHEMA_VERSION

    def __repr__(self) -> str:
        """One line; ``dynamo_ext.widgets.comparison.static`` shows it all."""
        names = ", ".join(each.name for each in self.candidates)
        return f"<Comparison of {self.title}: {names}; {self.rounds} rounds>"

    def verdict(self, candidate: CandidateResult) -> Verdict:
        """What a candidate comes to, in one word.

        ``unclear`` where times decide nothing, and where the medians contradict the speedup.
        """
        if candidate.name == self.baseline:
            return "baseline"
        if candidate.outcome != "measured" or candidate.speedup is None:
            return _WORDS[candidate.outcome]
        undecided = self.undecided or self.contradicts(candidate)
        return "unclear" if undecided else candidate.speedup.verdict

    def contradicts(self, candidate: CandidateResult) -> bool:
        """Whether a candidate is faster by its speedup and slower by its median, or the reverse."""
        base, speedup = self.base, candidate.speedup
        if base is None or base.timing is None or candidate.timing is None or speedup is None:
            return False
        medians = base.timing.median / candidate.timing.median
        opposite = {"faster": "slower", "slower": "faster"}.get(speedup.verdict)
        return verdict_of(medians, medians, medians) == opposite

    @property
    def has_precisions(self) -> bool:
        """Whether some candidate computes in a lower precision than the code's own."""
        return any(each.precision not in ("", FULL) for each in self.candidates)

    @property
    def base(self) -> CandidateResult | None:
        """The baseline's row; ``None`` where there is none."""
        return next((c for c in self.candidates if c.name == self.baseline), None)

    @property
    def undecided(self) -> bool:
        """Whether the machine was busy or slowed down, so that times decide nothing."""
        return self.on_busy_machine or self.slowed_down

    @property
    def on_busy_machine(self) -> bool:
        """Whether other programs had so much of the machine that times decide nothing."""
        return self.busy_cores >= BUSY_CORES

    @property
    def slowed_down(self) -> bool:
        """Whether the plain code's first call was clearly faster than its later ones."""
        base = self.base
        if base is None or base.backend or base.timing is None or not base.first_call_seconds:
            return False
        return base.timing.median / base.first_call_seconds >= FASTER_AT_FIRST

    @property
    def best(self) -> CandidateResult | None:
        """The fastest candidate that is right and faster than the baseline, if there is one."""
        faster = [c for c in self.candidates if self.verdict(c) == "faster"]
        return max(faster, key=lambda c: c.speedup.ratio if c.speedup else 0.0, default=None)

    def break_even(self, candidate: CandidateResult) -> float | None:
        """Calls after which compiling has paid for itself; ``None`` where it never does."""
        base = self.base
        if base is None or base.timing is None or candidate.speedup is None:
            return None
        if self.verdict(candidate) != "faster":
            return None
        gain = base.timing.median * (1 - 1 / candidate.speedup.ratio)
        return math.ceil(max(candidate.first_call_seconds - base.timing.median, 0.0) / gain)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, ready for ``json.dumps``."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """A comparison from ``to_dict`` or its JSON; else raises ``RecordFormatError``."""
        return structured(cls, record, SCHEMA_VERSION, "a comparison", "Comparison.to_dict()")
