"""The page of first and later runs, written from their rows."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import TYPE_CHECKING

from benchmarks.first_run.row import BUDGET, MORE, NAMED, SLOWER
from benchmarks.first_run.run import BACKENDS
from benchmarks.markdown import cell, table, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.first_run.row import Facts, Row

LONG = 0.02
"""Seconds that a plain cell takes at least whose time under ``auto`` is in the mean, and whose
stated gain is judged: of a shorter one the magic's own work is a large part."""

_PAGE = """# First and later runs

Written by `make first-run`: do not edit.

{summary}

Cells that people write run under `%%dynamo -b BACKEND --quiet` in an IPython shell. Each cell has a
process of its own under each backend. The process finds nothing compiled on disk. The same process
runs the cell plainly, in another namespace. Both namespaces have run the same setup, and have their
own random numbers. The plain cell's first run comes first, and loads what the cell's libraries load
late.

- **First, second**: wall-clock seconds of these runs, with loading and compiling.
- **Plain, later**: medians of the ten runs after the second one, interleaved.
- **Later over plain**: below 1 the backend is faster.
- **Captured**: the share of calls of graphs in the last run, as its report has it.
- **Graphs**: those of the first run.
- A first run may take {eager:.0f} s more than the plain one on `eager`, {named:.0f} s more on a
  named engine, and {auto:.0f} s more on `auto`.
- A later run may take {slower:g} times as long as the plain one, or {more:.0f} ms more.
- What a cell binds after the first run is compared with what the plain cell binds. What it prints
  is compared, too. Where numbers disagree, the cell in float64 says which are farther off.

{machine}

## First runs over the budget

{over}

## Later runs that are too slow

{slow}

## Gains that second runs state

{gains}

## Results that differ

{different}

{tables}

## What the reports say of the last run

{sentences}
"""


def page(rows: Sequence[Row], machine: str) -> str:
    """The whole page.

    Parameters
    ----------
    rows
        In the order of the tables.
    machine
        What they were measured with, a line for each machine.
    """
    return _PAGE.format(
        summary=_summary(rows) if rows else "Nothing is measured yet.",
        eager=BUDGET["eager"],
        named=NAMED,
        auto=BUDGET["auto"],
        slower=SLOWER,
        more=MORE * 1e3,
        machine=machine.replace("\n", "\n\n"),
        over=table(
            "Cell | Backend | First s | Budget s | Plain s | What was said",
            [
                [row.cell, f"`{row.backend}`", _first(row), f"{row.budget:.1f}",
                 "–" if row.plain is None else f"{row.plain:.2f}", cell(row.error or _over(row))]
                for row in rows if row.over_budget
            ],
        ),
        slow=table(
            "Cell | Backend | Plain ms | Later ms | Later over plain | What was said",
            [
                [row.cell, f"`{row.backend}`", *_later(row), cell(_fault(row))]
                for row in _slow(rows)
            ],
        ),
        gains=_gains(
            [r for r in rows if r.later and r.later.gain_source and r.later.plain >= LONG]
        ),
        different=table(
            "Cell | Backend | What differs",
            [[row.cell, f"`{row.backend}`", cell(_difference(row))] for row in _different(rows)],
        ),
        tables="\n\n".join(
            f"## `{backend}`\n\n{_of_backend([row for row in rows if row.backend == backend])}"
            for backend in BACKENDS
        ),
        sentences="\n".join(
            f"- {row.cell}, `{row.backend}`: {_sentences(row.later.facts)}"
            for row in rows
            if row.later and row.later.facts
        )
        or "Nothing.",
    )  # fmt: skip


def _over(row: Row) -> str:
    """What the first run's report says of its seconds."""
    facts = row.first.facts if row.first else None
    said = (each for each in facts.fallbacks if "were used up" in each) if facts else ()
    return next(iter(said), "")


def _sentences(facts: Facts) -> str:
    return cell(" ".join((facts.said, *facts.stays)))


def said(row: Row) -> str:
    """A row in a few words, for the terminal."""
    plain, later, ratio = _later(row)
    times = f"first {_first(row)} s, later {later} ms, plain {plain} ms, {ratio}"
    return f"{times} {_note(row)}".rstrip()


def _summary(rows: Sequence[Row]) -> str:
    backends = [[row for row in rows if row.backend == name] for name in BACKENDS]
    lines = [
        f"- {_count(rows, [r for r in rows if r.over_budget])} first runs were over the budget.",
        f"- {_count(rows, _slow(rows))} missed the rule for later runs.",
    ]
    ratios = [
        row.later.ratio
        for row in rows
        if row.backend == "auto" and row.later and row.later.plain >= LONG
    ]
    if ratios:
        lines.append(
            f"- Under `auto`, later runs take {statistics.geometric_mean(ratios):.2f} times as long"
            f" as the plain cell: the geometric mean over the {len(ratios)} cells that take"
            f" {LONG * 1e3:.0f} ms or more."
        )
    lines.append(f"- {_count(rows, _different(rows))} results differ.")
    counts = table(
        "Backend | Cells | Over the budget | Too slow later | Different",
        [
            [f"`{some[0].backend}`", len(some), sum(row.over_budget for row in some),
             len(_slow(some)), len(_different(some))]
            for some in backends if some
        ],
    )  # fmt: skip
    return "\n".join(lines) + f"\n\n{counts}"


def _gains(rows: Sequence[Row]) -> str:
    """What second runs state of the whole cell, beside what was measured of it in the ten later."""
    stated = [row for row in rows if row.later and row.later.gain]
    right = [row for row in stated if row.later and row.later.gain_holds]
    reasons = Counter(row.later.gain_source for row in rows if row.later and not row.later.gain)
    lines = [
        [row.cell, f"`{row.backend}`", told(*row.later.gain), f"{1 / row.later.ratio:.2f}",
         row.later.gain_source]
        for row in stated if row.later and not row.later.gain_holds
    ]  # fmt: skip
    summary = (
        f"{_count(rows, stated)} reports of second runs state how many times as fast as plainly the"
        f" cell is, of cells that take {LONG * 1e3:.0f} ms or more. Of these,"
        f" {_count(stated, right)} have the measured gain in their interval: that of"
        " medians of ten interleaved runs of the whole cell. The others:"
    )
    others = table("Cell | Backend | Stated | Measured | Stated from", lines)
    why = "\n".join(f"- {many} times: {reason}" for reason, many in reasons.most_common())
    return f"{summary}\n\n{others}\n\nWhy the rest state none:\n\n{why or 'None.'}"


def _count(rows: Sequence[Row], some: Sequence[Row]) -> str:
    return f"{len(some)} of {len(rows)}"


def _slow(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.later is None or not row.later.keeps_the_rule]


def _different(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if _difference(row)]


def _difference(row: Row) -> str:
    return row.first.difference if row.first else ""


def _fault(row: Row) -> str:
    return row.error or (row.later.error and f"raised {row.later.error}" if row.later else "")


def _of_backend(rows: Sequence[Row]) -> str:
    return table(
        "Cell | Plain ms | First s | Second s | Later ms | Later over plain | Captured | Graphs"
        " | Note",
        [_cells(row) for row in rows],
    )


def _cells(row: Row) -> list[object]:
    plain, later, ratio = _later(row)
    first = row.first.facts if row.first else None
    last = row.later.facts if row.later else None
    return [
        row.cell,
        plain,
        _first(row),
        f"{row.later.second:.2f}" if row.later else "–",
        later,
        ratio,
        f"{last.share:.0%}" if last else "–",
        first.graphs if first else "–",
        cell(_note(row)),
    ]


def _first(row: Row) -> str:
    return f"{row.first.seconds:.2f}" if row.first else "–"


def _later(row: Row) -> tuple[str, str, str]:
    if row.later is None or row.later.error:
        return "–" if row.plain is None else f"{row.plain * 1e3:.1f}", "–", "–"
    return (
        f"{row.later.plain * 1e3:.1f}",
        f"{row.later.tenth * 1e3:.1f}",
        f"{row.later.ratio:.2f}",
    )


def _note(row: Row) -> str:
    facts = row.first.facts if row.first else None
    notes = [
        _fault(row),
        f"differs: {_difference(row)}" if _difference(row) else "equal" if row.first else "",
        " ".join(facts.fallbacks[:2]) if facts else "",
        f"{len(facts.fallbacks) - 2} more fallbacks" if facts and len(facts.fallbacks) > 2 else "",
    ]
    return ". ".join(note.rstrip(".") for note in notes if note)
