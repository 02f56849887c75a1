"""The columns of a comparison's table: what each says, and what rows are sorted by."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from dynamo_ext.formatting import seconds
from dynamo_ext.widgets.comparison.summary import counted, interval, probability, ratio, verdict

if TYPE_CHECKING:
    from dynamo_ext.records.comparison import CandidateResult, Comparison

_KIB = 1024
_CLOSE = 1e-4
_ORDER = ("baseline", "faster", "same", "unclear", "slower", "eager", "wrong", "failed", "none")

NONE = "–"
"""A cell that has nothing to say."""

Value = float | str | None
Row = Callable[["Comparison", "CandidateResult"], Value]


@dataclass(frozen=True)
class Column:
    """One column: its words, what it sorts by, where it shows, and what it explains of itself."""

    title: str
    value: Row
    about: str
    _: KW_ONLY
    key: str
    """Its name in ``to_dataframe``."""
    write: Callable[[Any], str] = str
    """How a value is written."""
    words: Callable[..., str] | None = None
    """The words of a row, where they are more than its value; fewer if ``brief``."""
    groups: tuple[str, ...] = ()
    """The sets of columns that it is in, besides all."""
    short: str = ""
    """Its title in a terminal; empty where it has no room there."""
    data: Row | None = None
    """What ``to_dataframe`` has of it, where that is not ``value``."""
    falling: bool = False
    """Whether its largest value is the best one, so that sorting starts there."""

    def cell(self, record: Comparison, each: CandidateResult, *, brief: bool = False) -> str:
        """The text of one row, ``brief`` for a terminal; ``NONE`` where the row has no value."""
        if self.words is not None:
            return self.words(record, each, brief=brief)
        value = self.value(record, each)
        return NONE if value is None else self.write(value)


def size(value: float) -> str:
    """Write bytes with the unit that suits them (``4.0 KiB``)."""
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


def _speedup(record: Comparison, each: CandidateResult, *, brief: bool) -> str:
    if counted(record, each) and each.speedup:
        return f"{ratio(each.speedup.ratio)} ({interval(each.speedup)})"
    wrong = NONE if brief else "not compared"
    words = {"baseline": "1×", "eager": "ran eagerly", "wrong": wrong}
    return words.get(record.verdict(each), NONE)


def _speedup_value(record: Comparison, each: CandidateResult) -> Value:
    if each.name == record.baseline:
        return 1.0
    return each.speedup.ratio if counted(record, each) and each.speedup else None


def _pays(record: Comparison, each: CandidateResult, *, brief: bool) -> str:
    calls = record.break_even(each)
    if calls is not None:
        return f"{calls:,.0f}{'' if brief else ' calls'}" if calls != 1 else "1 call"
    return "never" if record.verdict(each) in {"same", "slower"} else NONE


def _error(name: str) -> Row:
    """An error of the first reference's."""

    def value(_record: Comparison, each: CandidateResult) -> Value:
        number = getattr(each.accuracy[0], name) if each.accuracy else math.nan
        return None if math.isnan(number) else number

    return value


def _field(name: str) -> Row:
    return lambda _record, each: getattr(each, name)


def _seconds(title: str, key: str, about: str, **more: Any) -> Column:
    """A column of seconds, of which 0 are none."""

    def value(_record: Comparison, each: CandidateResult) -> Value:
        return getattr(each, key) or None

    return Column(title, value, about, key=key, data=_field(key), write=seconds, **more)


def _count(title: str, key: str, about: str) -> Column:
    """A column of a number that the candidate's report has."""

    def value(_record: Comparison, each: CandidateResult) -> Value:
        return getattr(each, key) if each.backend and each.first_call_seconds > 0 else None

    groups = (_COVERAGE,)
    return Column(
        title, value, about, key=key, data=_field(key), groups=groups, write="{:,}".format
    )


def _quartiles(_record: Comparison, each: CandidateResult, **_: bool) -> str:
    if each.timing is None:
        return NONE
    low, high = (seconds(value) for value in each.timing.quartiles)
    same_unit = low.split()[-1] == high.split()[-1] and low.count(" ") == 1
    return f"{low.split()[0]}–{high}" if same_unit else f"{low} – {high}"


def _spread(_record: Comparison, each: CandidateResult) -> Value:
    return each.timing.quartiles[1] - each.timing.quartiles[0] if each.timing else None


def _in_engine(_record: Comparison, each: CandidateResult, *, brief: bool) -> str:
    of = "/" if brief else " of "
    return f"{each.in_engine:,}{of}{each.operations:,}" if each.operations else NONE


_OVERVIEW, _SPEED, _COVERAGE, _ERRORS = "Overview", "Speed", "Coverage and memory", "Errors"
_EVERY = (_OVERVIEW, _SPEED, _COVERAGE, _ERRORS)

COLUMNS = (
    Column(
        "Candidate",
        lambda _r, c: c.name.lower(),
        "The backend",
        key="name",
        words=lambda _r, c, **_: c.name,
        data=_field("name"),
        groups=_EVERY,
        short="Candidate",
    ),
    Column(
        "Verdict",
        lambda r, c: _ORDER.index(r.verdict(c)),
        "same: under 2 % apart, or not significant; unclear: the same may hide 10 % and more",
        key="verdict",
        words=verdict,
        data=lambda r, c: r.verdict(c),
        groups=_EVERY,
        short="Verdict",
    ),
    Column(
        "Speedup",
        _speedup_value,
        "Against the baseline, with its interval",
        key="speedup",
        words=_speedup,
        data=lambda _r, c: c.speedup.ratio if c.speedup else None,
        groups=(_OVERVIEW, _SPEED),
        short="Speedup",
        falling=True,
    ),
    Column(
        "p",
        lambda r, c: c.speedup.p_value if counted(r, c) and c.speedup else None,
        "Wilcoxon's signed-rank test",
        key="p_value",
        write=probability,
        data=lambda _r, c: c.speedup.p_value if c.speedup else None,
        groups=(_SPEED,),
    ),
    Column(
        "Median",
        lambda _r, c: c.timing.median if c.timing else None,
        "Of one call",
        key="median_seconds",
        write=seconds,
        groups=(_OVERVIEW, _SPEED),
        short="Median",
    ),
    _seconds(
        "First call",
        "first_call_seconds",
        "Compiling included",
        groups=(_OVERVIEW, _SPEED),
        short="1st call",
    ),
    _seconds(
        "Compile", "compile_seconds", "Of the first call, what compiling took", groups=(_SPEED,)
    ),
    Column(
        "Break-even",
        lambda r, c: r.break_even(c),
        "Calls needed to recover the compile time",
        key="break_even_calls",
        words=_pays,
        groups=(_OVERVIEW, _SPEED),
        short="Break-even",
    ),
    Column(
        "In engine",
        lambda _r, c: c.in_engine / c.operations if c.operations else None,
        "Operations that the engine ran",
        key="in_engine",
        words=_in_engine,
        data=_field("in_engine"),
        groups=(_OVERVIEW, _COVERAGE),
        short="In engine",
        falling=True,
    ),
    _count("Graphs", "graphs", "Captured"),
    _count("Breaks", "breaks", "Where capture ended early"),
    _count("Fallbacks", "fallbacks", "Stages given to eager"),
    Column(
        "Quartiles",
        _spread,
        "The middle half of the rounds",
        key="quartile_range_seconds",
        words=_quartiles,
        groups=(_OVERVIEW, _SPEED),
    ),
    Column(
        "Peak memory",
        _field("peak_bytes"),
        "Of one call, above what was there before it",
        key="peak_bytes",
        write=size,
        groups=(_OVERVIEW, _COVERAGE),
        short="Peak",
    ),
    Column(
        "Max error",
        _error("max_abs"),
        "Largest absolute",
        key="max_abs_error",
        write=error,
        groups=(_OVERVIEW, _ERRORS),
        short="Error",
    ),
    Column(
        "Max rel. error",
        _error("max_rel"),
        "Of the largest",
        key="max_rel_error",
        write=error,
        groups=(_ERRORS,),
    ),
    Column(
        "Cosine",
        _error("cosine"),
        "Similarity",
        key="cosine",
        write=cosine,
        groups=(_ERRORS,),
        falling=True,
    ),
)
BY_TITLE = {column.title: column for column in COLUMNS}
SORTS = tuple(BY_TITLE)
LEAD = SORTS[:2]
GROUPS = {name: tuple(c.title for c in COLUMNS if name in c.groups) for name in _EVERY} | {
    "All": SORTS
}


def data(record: Comparison, each: CandidateResult) -> dict[str, Value]:
    """A row of ``to_dataframe``: seconds, bytes, ratios, counts; ``None`` for what it lacks."""
    row = {column.key: (column.data or column.value)(record, each) for column in COLUMNS}
    low, high = (each.speedup.low, each.speedup.high) if each.speedup else (None, None)
    more = {"speedup_low": low, "speedup_high": high, "operations": each.operations}
    return row | more | {"reason": each.reason}


def ordered(
    record: Comparison, by: str = "", *, reverse: bool = False, find: str = ""
) -> list[CandidateResult]:
    """The candidates that match ``find``, sorted by a column; those without a value come last.

    Without a column: the baseline, then the fastest first, then what is not compared.
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


def _rank(record: Comparison, each: CandidateResult) -> tuple[int, float]:
    word = record.verdict(each)
    place = 1 if word in {"faster", "same", "unclear", "slower"} else _ORDER.index(word)
    return place, -each.speedup.ratio if each.speedup else 0.0


def _words(record: Comparison, each: CandidateResult) -> str:
    options = " ".join(f"{key}={value}" for key, value in each.options)
    return f"{each.name} {each.backend} {options} {verdict(record, each)}".lower()
