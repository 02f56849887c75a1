"""The columns of a comparison's table: what each says, and what rows are sorted by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamo_ext.widgets.comparison_summary import counted, interval, probability, ratio, verdict
from dynamo_ext.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.comparison import Accuracy, CandidateResult, Comparison

_KIB = 1024
_CLOSE = 1e-4
_ORDER = ("baseline", "faster", "same", "unclear", "slower", "eager", "wrong", "failed", "none")

NONE = "–"
"""A cell that has nothing to say."""

Value = float | str | None


@dataclass(frozen=True)
class Column:
    """One column: its words, what it sorts by, and what it explains of itself."""

    title: str
    cell: Callable[[Comparison, CandidateResult], str]
    value: Callable[[Comparison, CandidateResult], Value]
    about: str
    falling: bool = False


def size(value: float | None) -> str:
    """Write bytes with the unit that suits them (``4.0 KiB``)."""
    if value is None:
        return NONE
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < _KIB:
            return f"{value:,.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= _KIB
    return f"{value:.1f} GiB"


def cosine(value: float) -> str:
    """Write a similarity so that its distance from 1 can be read (``1 − 2.3e-09``)."""
    if math.isnan(value):
        return NONE
    if value >= 1:
        return "1"
    return f"1 − {1 - value:.1e}" if 1 - value < _CLOSE else f"{value:.6f}"


def error(value: float) -> str:
    """Write an error with two digits."""
    return NONE if math.isnan(value) else "0" if not value else f"{value:.1e}"


def _speedup(record: Comparison, each: CandidateResult) -> str:
    if counted(record, each) and each.speedup:
        return f"{ratio(each.speedup.ratio)} ({interval(each.speedup)})"
    words = {"baseline": "1×", "eager": "ran eagerly", "wrong": "does not count"}
    return words.get(record.verdict(each), NONE)


def _speedup_value(record: Comparison, each: CandidateResult) -> Value:
    if each.name == record.baseline:
        return 1.0
    return each.speedup.ratio if counted(record, each) and each.speedup else None


def _pays(record: Comparison, each: CandidateResult) -> str:
    calls = record.break_even(each)
    if calls is not None:
        return f"{calls:,.0f} calls" if calls != 1 else "1 call"
    return "never" if record.verdict(each) in {"same", "slower"} else NONE


def _first(each: CandidateResult) -> Accuracy | None:
    return each.accuracy[0] if each.accuracy else None


def _of_error(
    write: Callable[[float], str], name: str
) -> Callable[[Comparison, CandidateResult], str]:
    def cell(_record: Comparison, each: CandidateResult) -> str:
        found = _first(each)
        return write(getattr(found, name)) if found else NONE

    return cell


def _error_value(name: str) -> Callable[[Comparison, CandidateResult], Value]:
    def value(_record: Comparison, each: CandidateResult) -> Value:
        found = _first(each)
        number = float(getattr(found, name)) if found else math.nan
        return None if math.isnan(number) else number

    return value


def _quartiles(_record: Comparison, each: CandidateResult) -> str:
    if each.timing is None:
        return NONE
    low, high = (seconds(value) for value in each.timing.quartiles)
    same_unit = low.split()[-1] == high.split()[-1] and low.count(" ") == 1
    return f"{low.split()[0]}–{high}" if same_unit else f"{low} – {high}"


def _spread(_record: Comparison, each: CandidateResult) -> Value:
    return each.timing.quartiles[1] - each.timing.quartiles[0] if each.timing else None


def _ran(each: CandidateResult) -> bool:
    return bool(each.backend) and each.first_call_seconds > 0


def _number(name: str) -> Callable[[Comparison, CandidateResult], str]:
    def cell(_record: Comparison, each: CandidateResult) -> str:
        return f"{getattr(each, name):,}" if _ran(each) else NONE

    return cell


def _number_value(name: str) -> Callable[[Comparison, CandidateResult], Value]:
    return lambda _record, each: float(getattr(each, name)) if _ran(each) else None


def _share(_record: Comparison, each: CandidateResult) -> Value:
    return each.in_engine / each.operations if each.operations else None


COLUMNS = (
    Column("Candidate", lambda _r, c: c.name, lambda _r, c: c.name.lower(), "The backend"),
    Column(
        "Verdict",
        verdict,
        lambda r, c: float(_ORDER.index(r.verdict(c))),
        "SAME: under 2 % apart, or not significant; UNCLEAR: the same may hide 10 % and more",
    ),
    Column("Speedup", _speedup, _speedup_value, "Against the baseline, with its interval", True),  # noqa: FBT003
    Column(
        "Median",
        lambda _r, c: seconds(c.timing.median) if c.timing else NONE,
        lambda _r, c: c.timing.median if c.timing else None,
        "Of one call",
    ),
    Column("Quartiles", _quartiles, _spread, "The middle half of the rounds"),
    Column(
        "First call",
        lambda _r, c: seconds(c.first_call_seconds) if c.first_call_seconds else NONE,
        lambda _r, c: c.first_call_seconds or None,
        "Compiling included",
    ),
    Column("Pays off after", _pays, lambda r, c: r.break_even(c), "Calls that earn the compiling"),
    Column(
        "Peak memory",
        lambda _r, c: size(c.peak_bytes),
        lambda _r, c: None if c.peak_bytes is None else float(c.peak_bytes),
        "Of one call, above what was there before it",
    ),
    Column(
        "In engine",
        lambda _r, c: f"{c.in_engine:,} of {c.operations:,}" if c.operations else NONE,
        _share,
        "Operations that the engine ran",
        True,  # noqa: FBT003
    ),
    Column("Max error", _of_error(error, "max_abs"), _error_value("max_abs"), "Largest absolute"),
    Column(
        "p",
        lambda r, c: probability(c.speedup.p_value) if counted(r, c) and c.speedup else NONE,
        lambda r, c: c.speedup.p_value if counted(r, c) and c.speedup else None,
        "Wilcoxon's signed-rank test",
    ),
    Column(
        "Compile",
        lambda _r, c: seconds(c.compile_seconds) if c.compile_seconds else NONE,
        lambda _r, c: c.compile_seconds or None,
        "Of the first call, what compiling took",
    ),
    Column("Graphs", _number("graphs"), _number_value("graphs"), "Captured"),
    Column("Breaks", _number("breaks"), _number_value("breaks"), "Where capture ended early"),
    Column("Fallbacks", _number("fallbacks"), _number_value("fallbacks"), "Stages given to eager"),
    Column(
        "Max rel. error", _of_error(error, "max_rel"), _error_value("max_rel"), "Of the largest"
    ),
    Column("Cosine", _of_error(cosine, "cosine"), _error_value("cosine"), "Similarity", True),  # noqa: FBT003
)
BY_TITLE = {column.title: column for column in COLUMNS}

LEAD = ("Candidate", "Verdict")
GROUPS: dict[str, tuple[str, ...]] = {
    "Overview": (
        *LEAD, "Speedup", "Median", "Max error", "First call", "Pays off after", "In engine",
        "Quartiles", "Peak memory",
    ),
    "Speed": (
        *LEAD, "Speedup", "p", "Median", "Quartiles", "First call", "Compile", "Pays off after",
    ),
    "Coverage and memory": (
        *LEAD, "In engine", "Graphs", "Breaks", "Fallbacks", "Peak memory",
    ),
    "Errors": (*LEAD, "Max error", "Max rel. error", "Cosine"),
    "All": tuple(column.title for column in COLUMNS),
}  # fmt: skip
SORTS = tuple(column.title for column in COLUMNS)


def ordered(
    record: Comparison,
    by: str = "",
    *,
    reverse: bool = False,
    find: str = "",
) -> list[CandidateResult]:
    """The candidates that match ``find``, sorted by a column; those without a value come last.

    Without a column: the baseline, then the fastest first, then what does not count.
    """
    words = find.lower().split()
    kept = [each for each in record.candidates if all(w in _words(record, each) for w in words)]
    if not by:
        return sorted(kept, key=lambda each: _rank(record, each))
    column = BY_TITLE[by]
    keyed = [(column.value(record, each), each) for each in kept]
    there = [(value, each) for value, each in keyed if value is not None]
    there.sort(key=lambda pair: pair[0], reverse=reverse)
    return [each for _, each in there] + [each for value, each in keyed if value is None]


def falls(title: str) -> bool:
    """Whether a column's best value is its largest, so that sorting starts there."""
    return BY_TITLE[title].falling


def _rank(record: Comparison, each: CandidateResult) -> tuple[int, float]:
    word = record.verdict(each)
    timed = {"faster": 1, "same": 1, "unclear": 1, "slower": 1}
    place = timed.get(word, _ORDER.index(word))
    return place, -each.speedup.ratio if each.speedup else 0.0


def _words(record: Comparison, each: CandidateResult) -> str:
    options = " ".join(f"{key}={value}" for key, value in each.options)
    return f"{each.name} {each.backend} {options} {verdict(record, each)}".lower()
