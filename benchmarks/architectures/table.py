"""The page of the architectures, written from their rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from benchmarks.markdown import cell, table, without_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.architectures.make import Made
    from benchmarks.architectures.run import Row

_PAGE = """# Architectures of transformers

Written by `python -m benchmarks.architectures`: do not edit. Of each of transformers'
architectures a small model is made without weights of anybody's: its usual configuration with
narrower layers, fewer of them, fewer words and smaller images, random weights, and the head of the
first task that it has. Under each engine, in a process of its own, it is called four times without
gradients: a first time, with another input, with another batch size, and with changed weights.
Each result is compared with eager's, and where the two disagree with float64's, as in
[the model zoo](models.md).

- **Right**: all four calls. **Unsure**: eager's own results move as far where weights and inputs
  change by half of their last digit.
- **In engine**: of the operations of all graphs. **Whole**: models of which all is in the engine.
- **Fell back**: models of which an engine failed on a part that it had accepted, or was found wrong
  at its first call; the results are eager's, and the report says so.

{totals}

{machine}

## What went wrong

{wrong}

## Where engines fell back to eager

{faults}

## By architecture

Operations in the engine; graphs / breaks where there is more than one graph.

{rows}

## What engines do not take

Operators, and in how many of the models.

{refused}

## What is not made

{missing}
"""
_TOTALS = (
    "Engine | Models: | Right: | Unsure: | Wrong: | Crashes, hangs, exceptions: | In engine: "
    "| Whole: | Fell back:"
)


def page(made: Sequence[Made], rows: Sequence[Row], machine: str, engines: Sequence[str]) -> str:
    """The whole page.

    Parameters
    ----------
    made
        Every architecture, those included that could not be made small.
    rows
        Of each engine.
    machine
        What they were measured with, a line for each machine.
    engines
        In the order of the table.
    """
    engines = [name for name in engines if any(row.engine == name for row in rows)]
    by_key = {(row.architecture, row.engine): row for row in rows}
    cells = [(each, [by_key.get((each.architecture, name)) for name in engines]) for each in made]
    refused = Counter((row.engine, operator) for row in rows for operator in row.refused)
    return _PAGE.format(
        totals=table(
            _TOTALS, [_total(name, [r for r in rows if r.engine == name]) for name in engines]
        ),
        machine=machine.replace("\n", "\n\n"),
        wrong=table(
            "Architecture | Engine | Status | Step | What was said",
            [
                [row.architecture, f"`{row.engine}`", row.status, row.step, cell(row.reason)]
                for row in rows
                if row.status != "right"
            ],
        ),
        faults=table("Engine | What was said | Architectures", _faults(rows), "Nowhere."),
        rows=table(
            " | ".join(["Architecture", "Model", *(f"`{name}`" for name in engines)]),
            [
                [each.architecture, each.model, *(_cell(row) if row else "" for row in found)]
                for each, found in cells
                if any(found)
            ],
        ),
        refused=table(
            "Engine | Operator | Models:",
            [
                [f"`{engine}`", f"`{operator}`", number]
                for (engine, operator), number in sorted(
                    refused.items(), key=lambda each: (each[0][0], -each[1])
                )
            ],
        ),
        missing=table(
            "Architecture | Why", [[m.architecture, cell(m.error)] for m in made if m.error]
        ),
    )


def _total(engine: str, rows: Sequence[Row]) -> list[object]:
    counts = Counter(row.status for row in rows)
    operations = sum(row.operations for row in rows)
    return [
        f"`{engine}`",
        len(rows),
        counts["right"],
        counts["unsure"],
        counts["wrong"],
        counts["failed"],
        f"{sum(row.in_engine for row in rows) / operations:.1%}" if operations else "–",
        sum(row.operations == row.in_engine > 0 for row in rows),
        sum(bool(row.faults) for row in rows),
    ]


def _cell(row: Row) -> str:
    mark = "" if row.status == "right" else f"**{row.status}** "
    if not row.operations:
        return mark + ("" if row.status == "failed" else "not captured")
    broken = f", {row.graphs} / {row.breaks}" if row.graphs > 1 else ""
    return f"{mark}{row.in_engine / row.operations:.0%}{broken}"


def _faults(rows: Sequence[Row]) -> list[list[str]]:
    found: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        for said in row.faults:
            found.setdefault((row.engine, without_numbers(said)), {})[row.architecture] = None
    return [
        [f"`{engine}`", cell(said), _named(list(names))]
        for (engine, said), names in sorted(found.items())
    ]


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown
