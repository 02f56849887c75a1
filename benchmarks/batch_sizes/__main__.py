"""Batches of another size: ``python -m benchmarks.batch_sizes --write docs/batch-sizes.md``.

Each model under each backend in a process of its own.
"""

from __future__ import annotations

import os
import statistics
from typing import TYPE_CHECKING

from benchmarks import workers
from benchmarks.batch_sizes.run import PAIRS, Row, measure
from benchmarks.markdown import cell, line
from benchmarks.part import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGE = """# Batches of another size

Written by `python -m benchmarks.batch_sizes`: do not edit.

A model is called with a batch of 1, then of 2, then of 3. The second size compiles it again, with
sizes that may change. Each model has a process of its own under each backend, and finds nothing
compiled on disk, nor any answer about an operation. Cells are seconds of the call: of the
processor, and in brackets wall-clock. The ratio is the second size's over the first's, of the
processor's seconds: other programs ran at the same time, and wall-clock has their load.

{rows}

{described}
"""


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    lines = ["| model, backend | batch of 1 | of 2 | of 3 | ratio |", "|---|--:|--:|--:|--:|"]
    good = [row for row in rows if not row.error]
    ratios = [row.processor[1] / row.processor[0] for row in good]
    for row, ratio in zip(good, ratios, strict=True):
        pairs = zip(row.processor, row.seconds, strict=True)
        lines.append(line([row.model, *(f"{p:.2f} ({s:.2f})" for p, s in pairs), f"{ratio:.2f}"]))
    if good:
        lines.append(f"| **median** | | | | **{statistics.median(ratios):.2f}** |")
    lines += [line([row.model, cell(row.error)]) for row in rows if row.error]
    return _PAGE.format(rows="\n".join(lines), described=described)


PART = Part(
    "batch_sizes",
    "What it costs that a model gets a batch of another size.",
    list(PAIRS),
    Row,
    document,
    lambda row: ", ".join(f"{used:.2f}" for used in row.processor),
    measure,
    budget=None,
    timeout=300.0,
)

if __name__ == "__main__":
    # The processor's seconds count, and threads that spin while they wait use them.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    workers.command(PART.run)
