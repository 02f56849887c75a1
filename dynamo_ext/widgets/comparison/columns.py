"""The columns of a comparison's table: what each says, and what rows are sorted by."""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from dynamo_ext.analysis.machine_limit import share_of_limit, share_of_products
from dynamo_ext.formatting import percent, seconds
from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.widgets.comparison.number_text import NONE, cosine, decibels, error, share, size
from dynamo_ext.widgets.comparison.summary import counted, interval, ratio, verdict

_ORDER = ("baseline", "faster", "same", "unclear", "slower", "eager", "wrong", "failed", "none")

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
    """Its name in ``to_dataframe``, which has the candidate's own field of that name as it is."""
    write: Callable[[Any], str] = str
    """How a value is written."""
    words: Callable[..., str] | None = None
    """The words of a row, where they are more than its value; fewer if ``brief``."""
    short: str = ""
    """Its title in a terminal, where that is another one."""
    data: Row | None = None
    """What ``to_dataframe`` has, where that is neither such a field nor ``value``."""
    falling: bool = False
    """Whether its largest value is the best one, so that sorting starts there."""
    optional: bool = False
    """Whether it is left out where no row has a value."""

    def cell(self, record: Comparison, candidate: CandidateResult, *, brief: bool = False) -> str:
        """The text of one row, ``brief`` for a terminal; ``NONE`` where the row has no value."""
        if self.words is not None:
            return self.words(record, candidate, brief=brief)
        value = self.value(record, candidate)
        return NONE if value is None else self.write(value)


def shown(
    columns: Sequence[Column], record: Comparison, rows: Sequence[CandidateResult]
) -> list[Column]:
    """Those of some columns that have something to say of these rows."""
    return [
        each
        for each in columns
        if not each.optional or any(each.value(record, row) is not None for row in rows)
    ]


def _precision(record: Comparison, candidate: CandidateResult) -> Value:
    """Of a comparison in which something is computed in another one than the code's own."""
    return (candidate.precision or FULL) if record.has_precisions else None


def _precision_words(record: Comparison, candidate: CandidateResult, **_: bool) -> str:
    named, lowered = _precision(record, candidate), share_of_products(record, candidate)
    if named is None:
        return NONE
    if lowered is None:
        return str(named)
    if not lowered:
        return f"{FULL}: none of its products ran in {named}"
    return f"{named}, {percent(lowered)} of products"


def _speedup(record: Comparison, candidate: CandidateResult, *, brief: bool) -> str:
    if counted(record, candidate) and candidate.speedup:
        return f"{ratio(candidate.speedup.ratio)} ({interval(candidate.speedup)})"
    wrong = NONE if brief else "not compared"
    words = {"baseline": "1×", "eager": "ran eagerly", "wrong": wrong}
    return words.get(record.verdict(candidate), NONE)


def _speedup_value(record: Comparison, candidate: CandidateResult) -> Value:
    if candidate.name == record.baseline:
        return 1.0
    return candidate.speedup.ratio if counted(record, candidate) and candidate.speedup else None


def _pays(record: Comparison, candidate: CandidateResult, *, brief: bool) -> str:
    calls = record.break_even(candidate)
    if calls is not None:
        return f"{calls:,.0f}{'' if brief else ' calls'}" if calls != 1 else "1 call"
    return "never" if record.verdict(candidate) in {"same", "slower"} else NONE


def _error(title: str, about: str, name: str, key: str = "", **more: Any) -> Column:
    """A column of an error, or similarity, of the first reference's."""

    def value(_record: Comparison, candidate: CandidateResult) -> Value:
        number = getattr(candidate.accuracy[0], name) if candidate.accuracy else None
        return None if number is None or math.isnan(number) else number

    return Column(title, value, about, key=key or name, **more)


def _seconds(title: str, key: str, about: str, **more: Any) -> Column:
    """A column of seconds, of which 0 are none."""
    return Column(
        title, lambda _r, c: getattr(c, key) or None, about, key=key, write=seconds, **more
    )


def _count(title: str, key: str, about: str) -> Column:
    """A column of a number that the candidate's report has."""
    return Column(
        title,
        lambda _r, c: getattr(c, key) if c.backend and c.first_call_seconds > 0 else None,
        about,
        key=key,
        write="{:,}".format,
    )


def _quartiles(_record: Comparison, candidate: CandidateResult, **_: bool) -> str:
    if candidate.timing is None:
        return NONE
    low, high = (seconds(value) for value in candidate.timing.quartiles)
    same_unit = low.split()[-1] == high.split()[-1] and low.count(" ") == 1
    return f"{low.split()[0]}–{high}" if same_unit else f"{low} – {high}"


def _in_engine(_record: Comparison, candidate: CandidateResult, *, brief: bool) -> str:
    of = "/" if brief else " of "
    return f"{candidate.in_engine:,}{of}{candidate.operations:,}" if candidate.operations else NONE


COLUMNS = (
    Column("Candidate", lambda _r, c: c.name, "The backend", key="name"),
    Column(
        "Verdict",
        lambda r, c: _ORDER.index(r.verdict(c)),
        "same: under 2 % apart, or 1 lies in the interval; unclear: it goes on beyond 10 %",
        key="verdict",
        words=verdict,
        data=lambda r, c: r.verdict(c),
    ),
    Column(
        "Precision",
        _precision,
        "What the backend computes in, and how much of the products' operations, where that is "
        "known; float32 stands for the code's own",
        key="precision",
        words=_precision_words,
        optional=True,
    ),
    Column(
        "Speedup",
        _speedup_value,
        "Against the baseline, with its interval",
        key="speedup",
        words=_speedup,
        data=lambda _r, c: c.speedup.ratio if c.speedup else None,
        falling=True,
    ),
    Column(
        "Median",
        lambda _r, c: c.timing.median if c.timing else None,
        "Of one call",
        key="median_seconds",
        write=seconds,
    ),
    Column(
        "Of limit",
        share_of_limit,
        "The fewest seconds that this machine can take in that precision, of the median",
        key="share_of_limit",
        write=percent,
        falling=True,
        optional=True,
    ),
    _seconds("First call", "first_call_seconds", "Compiling included", short="1st call"),
    _seconds("Compile", "compile_seconds", "Of the first call, what compiling took"),
    Column(
        "Break-even",
        lambda r, c: r.break_even(c),
        "Calls needed to recover the compile time",
        key="break_even_calls",
        words=_pays,
    ),
    Column(
        "In engine",
        lambda _r, c: c.in_engine / c.operations if c.operations else None,
        "Operations that the engine ran",
        key="in_engine",
        words=_in_engine,
        falling=True,
    ),
    _count("Graphs", "graphs", "Captured"),
    _count("Breaks", "breaks", "Where capture ended early"),
    _count("Fallbacks", "fallbacks", "Stages given to eager"),
    Column(
        "Quartiles",
        lambda _r, c: c.timing.quartiles[1] - c.timing.quartiles[0] if c.timing else None,
        "The middle half of the rounds",
        key="quartile_range_seconds",
        words=_quartiles,
    ),
    Column(
        "Peak memory",
        lambda _r, c: c.peak_bytes,
        "Of one call, above what was there before it",
        key="peak_bytes",
        write=size,
        short="Peak",
    ),
    _error("Max error", "Largest absolute", "max_abs", "max_abs_error", write=error, short="Error"),
    _error("Max rel. error", "Of the largest", "max_rel", "max_rel_error", write=error),
    _error("Cosine", "Similarity", "cosine", write=cosine, falling=True),
    _error(
        "SQNR",
        "Signal to noise: 20 dB are an error of a tenth, 40 dB of a hundredth",
        "sqnr",
        write=decibels,
        falling=True,
    ),
    _error(
        "Top 1",
        "Rows whose largest element is in the same place",
        "top1",
        write=share,
        falling=True,
        optional=True,
    ),
)
BY_TITLE = {column.title: column for column in COLUMNS}
SORTS = tuple(BY_TITLE)
LEAD = SORTS[:2]
_EVERY = SORTS[:3]
_TIMES = ("Speedup", "Median", "Of limit", "First call")
GROUPS = {
    "Overview": (*_EVERY, *_TIMES, "Break-even", "In engine", "Peak memory", "Max error"),
    "Speed": (*_EVERY, *_TIMES, "Compile", "Break-even", "Quartiles"),
    "Coverage and memory": (*_EVERY, "In engine", "Graphs", "Breaks", "Fallbacks", "Peak memory"),
    "Errors": (*_EVERY, "Max error", "Max rel. error", "Cosine", "SQNR", "Top 1"),
    "All": SORTS,
}
"""Sets of columns, by the name that a user chooses."""
_WIDE = {"Precision", "Of limit"}
IN_TERMINAL = [BY_TITLE[title] for title in GROUPS["Overview"] if title not in _WIDE]


def data(record: Comparison, candidate: CandidateResult) -> dict[str, Value]:
    """A row of ``to_dataframe``: seconds, bytes, ratios, counts; ``None`` for what it lacks."""
    row: dict[str, Value] = {}
    for column in COLUMNS:
        value = (column.data or column.value)(record, candidate)
        row[column.key] = value if column.data else getattr(candidate, column.key, value)
    row["speedup_low"] = candidate.speedup.low if candidate.speedup else None
    row["speedup_high"] = candidate.speedup.high if candidate.speedup else None
    row["share_of_products"] = share_of_products(record, candidate)
    return row | {"operations": candidate.operations, "reason": candidate.reason}


def ordered(
    record: Comparison, by: str = "", *, reverse: bool = False, find: str = ""
) -> list[CandidateResult]:
    """The candidates that match ``find``, best first, or sorted by a column (no value: last)."""
    words = find.lower().split()
    kept = [each for each in record.candidates if all(w in _words(record, each) for w in words)]
    if not by:
        return sorted(kept, key=lambda each: _rank(record, each))
    keyed = [(BY_TITLE[by].value(record, each), each) for each in kept]
    there = [
        (value.lower() if isinstance(value, str) else value, each)
        for value, each in keyed
        if value is not None
    ]
    there.sort(key=lambda pair: pair[0], reverse=reverse)
    return [each for _, each in there] + [each for value, each in keyed if value is None]


def _rank(record: Comparison, candidate: CandidateResult) -> tuple[int, float]:
    word = record.verdict(candidate)
    place = 1 if word in {"faster", "same", "unclear", "slower"} else _ORDER.index(word)
    return place, -candidate.speedup.ratio if candidate.speedup else 0.0


def _words(record: Comparison, candidate: CandidateResult) -> str:
    options = " ".join(f"{key}={value}" for key, value in candidate.options)
    return f"{candidate.name} {candidate.backend} {options} {verdict(record, candidate)}".lower()
