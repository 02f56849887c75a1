"""What differs between copies of one thing: ``python -m benchmarks.copies --write docs/copies.md``.

Each model in a process of its own.
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING

from benchmarks.copies_run import MODEL_BACKENDS, Copy, Row
from benchmarks.interval import told
from benchmarks.part import Part

if TYPE_CHECKING:
    from collections.abc import Sequence


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    lines = [
        "| model | backend | eager, ms | copies by themselves | spread | auto | auto over them |",
        "|---|---|--:|---|--:|---|--:|",
    ]
    lines += [_line(row) for row in rows if not row.error]
    lines += [f"| {row.model} | {row.error} |" for row in rows if row.error]
    return _PAGE.format(rows="\n".join(lines), described=described)


def alone(row: Row) -> list[Copy]:
    """The copies that nothing chose."""
    return [each for each in row.copies if not each.chose]


def _line(row: Row) -> str:
    chosen = [each for each in row.copies if each.chose]
    ratios = [each.ratio for each in alone(row)]
    mean = statistics.geometric_mean(ratios)
    over = statistics.geometric_mean([each.ratio for each in chosen]) / mean
    cells = [
        row.model,
        row.backend,
        f"{row.eager_seconds * 1e3:.2f}",
        "; ".join(told(each.ratio, each.low, each.high) for each in alone(row)),
        f"{(max(ratios) / min(ratios) - 1) * 100:.1f} %",
        "; ".join(f"{told(each.ratio, each.low, each.high)} {each.chose}" for each in chosen),
        f"{over:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


_PAGE = """# Copies of one backend

How far apart are two copies of the very same compiled model? Where [`auto`](auto.md) chose a
backend, it runs what that backend runs by itself, and yet one of the two may be some per cent
faster: engines keep their own weights and buffers, and where memory lies differs from copy to
copy. Here a model was compiled several times over by one backend, and by `auto` with that
backend and eager to choose from, in one process; all were timed in one interleaved schedule
(`python -m benchmarks.copies`).

Speedups are over eager, with 95 % intervals. *Spread* is how much the fastest copy by itself is
above the slowest; *auto over them* the ratio of the geometric means. The models are those where
`auto` was furthest behind the backend it had chosen.

{rows}

{described}
"""


PART = Part(
    "copies",
    "Copies of one backend, timed against each other.",
    list(MODEL_BACKENDS),
    Row.from_dict,
    lambda model, why: Row(model, error=why),
    document,
    lambda row: ", ".join(f"{each.name} {each.ratio:.2f}" for each in row.copies),
    budget=30.0,
    timeout=900.0,
)

if __name__ == "__main__":
    sys.exit(PART.measure(PART.parser().parse_args()))
