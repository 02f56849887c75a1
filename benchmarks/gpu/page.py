"""The measured part of ``docs/gpu-verification.md``."""

from __future__ import annotations

from collections import Counter
from textwrap import shorten
from typing import TYPE_CHECKING

from benchmarks.gpu.run import Row
from benchmarks.markdown import cell, table, told
from benchmarks.packed_rows import PackedRows
from benchmarks.zoo.form import LARGER

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

KEYS = ("part", "name")
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"
NOTHING = "**Nothing has run on a GPU yet: no line of the CUDA paths.**"
_COLUMNS = (
    "model / backend | outcome | a call, ms: | speedup: | of limit: | cosine: | first call, s: "
    "| in engine: | "
)
_TESTED = "backend | there | passed: | failed: | ended its process: | skipped: | not run:"
_COMPARED = (
    "Speedups over `eager` (the model as it is{size}), with 95 % intervals; shares of what the "
    "device can do in the row's precision; cosines to float64, of rows in float32 to eager:"
)
_LARGE = f", at {LARGER} times the usual batch"
_REASON = 130
_OUTCOMES = ("passed", "failed", "ended", "skipped", "not run")


def rows(store: PackedRows, part: str) -> list[Row]:
    """The stored rows of one part."""
    return [Row.from_dict(row) for row in store.all() if row["part"] == part]


def replaced(text: str, part: str) -> str:
    """A page with what is between its two marks replaced; ``ValueError`` where it lacks them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        message = f"The page has no {BEGIN} … {END}."
        raise ValueError(message)
    return f"{before}{BEGIN}\n{part}\n{END}{after}"


def measured(paths: Iterable[Path]) -> str:
    """One section for each file of rows that a GPU has; dry runs are left out."""
    stores = [PackedRows(path, KEYS) for path in paths if path.exists()]
    sections = [_section(store) for store in stores if store.head.get("device", "cpu") != "cpu"]
    return "\n\n".join(filter(None, sections)) or NOTHING


def _section(store: PackedRows) -> str:
    facts = {row.name: row.reason for row in rows(store, "machine")}
    if not facts.get("GPU"):
        return ""
    said = ", ".join(f"{name} {value}" for name, value in facts.items() if name != "GPU")
    tests = rows(store, "test")
    backends = {row.name: row for row in rows(store, "backend")}
    named = sorted({row.backend for row in tests} | backends.keys())
    tested = []
    for name in named:
        counts = Counter(row.outcome for row in tests if row.backend == name)
        here = backends.get(name)
        there = cell(f"{here.outcome}: {here.reason}") if here else ""
        tested.append([name or "several", there, *(counts[each] for each in _OUTCOMES)])
    bad = [row for row in tests if row.outcome in {"failed", "ended"}]
    listed = [
        f"- `{row.name}`: {row.outcome}: {cell(shorten(row.reason, _REASON, placeholder=' …'))}"
        for row in bad
    ]
    compared = map(_compared, rows(store, "model"))
    return "\n".join(
        [
            f"### {facts['GPU']}, {store.head['date']}",
            "",
            f"With {said}. The tests of `tests/gpu`:",
            "",
            table(_TESTED, tested),
            *(["", "What did not pass:", "", *listed] if listed else []),
            "",
            _COMPARED.format(size=_LARGE if store.head.get("size") == "large" else ""),
            "",
            table(_COLUMNS, compared),
        ]
    )


def _compared(row: Row) -> list[str]:
    call = f"{row.seconds * 1e3:.3f}" if row.seconds else ""
    speedup = told(row.ratio, row.low, row.high) if row.ratio else ""
    first = f"{row.first:.1f}" if row.first else ""
    engine = f"{row.in_engine} of {row.operations}" if row.operations else ""
    share = f"{row.share:.0%}" if row.share else ""
    cosine = f"{row.cosine:.7f}" if row.cosine else ""
    words = [row.name, row.outcome, call, speedup, share, cosine, first, engine]
    return [*words, cell(row.reason)]
