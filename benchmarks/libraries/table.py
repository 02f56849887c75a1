"""The page of the libraries, written from their rows."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import TYPE_CHECKING

from benchmarks.markdown import cell, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.libraries.run import Row

_PAGE = """# Models of libraries

Written by `make libraries`: do not edit. Small models of libraries on PyPI that build on torch,
with random weights. The libraries are installed for this alone, without another torch. Under each
engine, in a process of its own, a model takes four steps: with a first input, with another one,
with another batch size, and with gradients, of all weights and inputs. Each result is compared with
eager's, and where the two disagree with float64's, as in [the model zoo](models.md).

- **Right**: all four steps. **Failed**: an exception that eager does not raise. **Died**: the
  process crashed, had no result after five minutes, or used too much memory.
- **In engine**: of the operations of a model's graphs, the mean over models. **Whole**: models of
  which all is in the engine. **Breaks**: graph breaks.
- **Fell back**: models of which an engine failed on a part that it had accepted, or was found wrong
  at its first call; the results are eager's, and the report says so.
- **Seconds**: of the four steps, with compiling.

{totals}

{machine}

## What went wrong

{wrong}

## Where engines fell back to eager

{faults}

## By model

{rows}

## What engines do not take

{refused}
"""


def page(rows: Sequence[Row], machine: str) -> str:
    """The whole page.

    Parameters
    ----------
    rows
        In the order of the table.
    machine
        What they were measured with.
    """
    named = [(row.model.partition(": ")[0], row.model.partition(": ")[2], row) for row in rows]
    engines = list(dict.fromkeys(engine for engine, _, _ in named))
    refused = Counter((engine, name) for engine, _, row in named for name in row.refused)
    return _PAGE.format(
        machine=machine,
        totals=table(
            "Engine | Models | Right | Wrong | Failed | Died | In engine | Whole | Breaks"
            " | Fell back | Seconds (median)",
            [_total(engine, [row for at, _, row in named if at == engine]) for engine in engines],
        ),
        wrong=table(
            "Model | Engine | Status | What was said",
            [[m, f"`{e}`", row.status, cell(row.error)] for e, m, row in named if row.error],
        ),
        faults=table(
            "Model | Engine | What was said",
            [[m, f"`{e}`", cell(said)] for e, m, row in named for said in row.faults],
        ),
        rows=table(
            "Model | Library | Engine | Status | In engine | Graphs | Breaks | Seconds",
            [
                [m, row.library, f"`{e}`", row.status, _share(row), row.graphs, row.breaks,
                 f"{row.seconds:.1f}"]
                for e, m, row in sorted(named, key=lambda each: each[1].lower())
            ],
        ),
        refused=table(
            "Engine | Operator | Models",
            [[f"`{e}`", f"`{name}`", number] for (e, name), number in sorted(refused.items())],
        ),
    )  # fmt: skip


def _total(engine: str, rows: Sequence[Row]) -> list[object]:
    counts = Counter(row.status for row in rows)
    shares = [row.in_engine / row.operations for row in rows if row.operations]
    return [
        f"`{engine}`",
        len(rows),
        *(counts[status] for status in ("right", "wrong", "failed", "died")),
        f"{statistics.fmean(shares):.1%}" if shares else "–",
        sum(share == 1 for share in shares),
        sum(row.breaks for row in rows),
        sum(bool(row.faults) for row in rows),
        f"{statistics.median(row.seconds for row in rows):.1f}",
    ]


def _share(row: Row) -> str:
    return f"{row.in_engine / row.operations:.0%}" if row.operations else "–"
