"""What each engine takes of a model: ``python -m benchmarks.partition --write docs/partition.md``.

Each model in a process of its own, under one engine after the other; rows are stored as they come.
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING

from benchmarks.backends import without
from benchmarks.markdown import line
from benchmarks.models.__main__ import available
from benchmarks.part import Part
from benchmarks.partition.run import Row
from benchmarks.zoo import MODELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.partition.run import Taken

ENGINES = without("ts", "ofi")
"""Those that divide a graph and leave something; ``ts`` and ``ofi`` take all that is captured."""

NOTABLE = 0.005
"""Share of the operations' time from which an operator that stays in eager is named."""


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    good = [row for row in rows if not row.error]
    engines = list(dict.fromkeys(taken.engine for row in good for taken in row.taken))
    lines = [f"| model | {' | '.join(f'`{engine}`' for engine in engines)} |"]
    lines.append(f"|---|{'--:|' * len(engines)}")
    for row in good:
        by_engine = {taken.engine: _cell(taken) for taken in row.taken}
        cells = [by_engine.get(engine, "") for engine in engines] if row.taken else [_NONE]
        lines.append(line([row.model, *cells]))
    lines += [line([row.model, row.error]) for row in rows if row.error]
    return _PAGE.format(
        overall="\n".join(_overall(good, engines)),
        rows="\n".join(lines),
        costly="\n".join(_costly(good)) or "None.",
        notable=f"{NOTABLE:.1%}",
        described=described,
    )


def _overall(rows: Sequence[Row], engines: Sequence[str]) -> list[str]:
    """A line for each engine, over all models."""
    lines = []
    for engine in engines:
        taken = [each for row in rows for each in row.taken if each.engine == engine]
        by_count = statistics.mean(each.in_engine / max(each.operations, 1) for each in taken)
        by_time = statistics.mean(1 - each.left - each.shared for each in taken)
        whole = sum(each.in_engine == each.operations for each in taken)
        most = max(each.left + each.shared for each in taken)
        switches = statistics.median(each.switches for each in taken)
        lines.append(
            f"| `{engine}` | {by_count:.1%} | {by_time:.1%} | {whole} of {len(taken)} "
            f"| {most:.1%} | {switches:.0f} |"
        )
    return lines


def _cell(taken: Taken) -> str:
    if taken.in_engine == taken.operations:
        return "whole"
    if not taken.in_engine:
        return "nothing"
    count = f"{taken.in_engine} of {taken.operations}"
    both = f" + {taken.shared:.1%}" if taken.shared >= 0.0005 else ""
    return f"{count}, {taken.parts} / {taken.switches}, {taken.left:.1%}{both}"


def _costly(rows: Sequence[Row]) -> list[str]:
    """What stays in eager and has a share of the time that is worth a word."""
    lines = []
    for row in rows:
        for taken in row.taken:
            named = [each for each in taken.operators if each.share >= NOTABLE]
            if named and taken.in_engine:
                said = ", ".join(f"`{each.operator}` {each.share:.1%}" for each in named)
                most = f"{1 / taken.left:.1f}" if taken.left else ""
                lines.append(f"| {row.model} | `{taken.engine}` | {said} | {most} |")
    if lines:
        lines = ["| model | engine | in eager | at most |", "|---|---|---|--:|", *lines]
    return lines


_NONE = "Dynamo captures no graph of it."

_PAGE = """# What each engine takes, and what the rest costs

`python -m benchmarks.partition` calls each model once under each engine that divides a graph:
what it supports runs in it, the rest in eager (Update 7's splitter). Each captured operation is
also timed in eager, by itself (`dynamo_ext.explain`), which says what the rest has of the time:
few operations may be costly ones, and many may be none.

| engine | operations in it, mean | their time in eager, mean, at least | models taken whole | left, at most | switches, median |
|---|--:|--:|--:|--:|--:|
{overall}

A captured operation that became several, of which some run in eager, counts as left as a whole:
the LSTM tagger's `lstm` is such a one, and its cells do run in eager.

In Update 7, TensorRT took 27 of 48 models.

## By model

*Whole*, or: operations in the engine; parts of the graph that it runs / changes between them and
eager in one call; the share of the operations' time, as eager takes it, of those that eager runs,
and after a + that of captured operations which became several and run in both.

{rows}

## What is costly to leave

Operators in eager that have {notable} or more of the time. *At most* is the speedup that a model
could have if the engine took no time at all.

{costly}

{described}
"""  # noqa: E501 - a table's head is one line

PART = Part(
    "partition",
    "What each engine takes of a model, and what the rest costs.",
    [model.name for model in MODELS.values() if not model.learns],
    Row,
    document,
    lambda row: "; ".join(f"{each.engine} {_cell(each)}" for each in row.taken) or _NONE,
    budget=None,
    timeout=900.0,
)


def main() -> int:
    """Measure what is not there yet, store, write."""
    parser = PART.parser()
    parser.add_argument("--backends", nargs="+", default=list(ENGINES), metavar="NAME")
    given = parser.parse_args()
    return PART.measure(given, ["--backends", *available(given.backends)[0]])


if __name__ == "__main__":
    sys.exit(main())
