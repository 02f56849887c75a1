"""Cells with a loop under ``%%dynamo``: ``python -m benchmarks.loops --write docs/loops.md``.

Each cell in a process of its own, through the magic and its comparison.
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING

from benchmarks.loops.cells import CELLS
from benchmarks.loops.run import Row
from benchmarks.markdown import line, told
from benchmarks.part import Part
from benchmarks.plot import Plot, Point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.loops.run import Gain


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    good = [row for row in rows if not row.error]
    names = list(dict.fromkeys(gain.name for row in good for gain in row.gains))
    lines = [
        f"| cell | plain, ms | {' | '.join(names)} | graphs | calls | operations in them |",
        f"|---|--:|{'--:|' * len(names)}--:|--:|--:|",
    ]
    for row in good:
        gains = {gain.name: gain for gain in row.gains}
        last = row.gains[-1]
        cells = [row.model, f"{row.plain_seconds * 1e3:.1f}"]
        cells += [_shown(gains[name]) for name in names]
        cells += [str(last.graphs), str(last.calls), str(last.operations)]
        lines.append(line(cells))
    if good:
        means = [_mean(good, name) for name in names]
        lines.append(f"| **geometric mean** | | {' | '.join(means)} | | | |")
    lines += [line([row.model, row.error]) for row in rows if row.error]
    reasons = [
        f"- {row.model}, {gain.name}: {gain.outcome}: {gain.reason}"
        for row in good
        for gain in row.gains
        if gain.reason
    ]
    texts = [f"### {row.model}\n\n```python\n{CELLS[row.model].cell}```" for row in good]
    return _PAGE.format(
        rows="\n".join(lines),
        reasons="\n".join(reasons),
        texts="\n\n".join(texts),
        counted=good[0].gains[-1].name if good else "",
        described=described,
    )


def _shown(gain: Gain) -> str:
    return told(gain.ratio, gain.low, gain.high) if gain.ratio else gain.outcome


def _mean(rows: Sequence[Row], name: str) -> str:
    ratios = [gain.ratio or 1.0 for row in rows for gain in row.gains if gain.name == name]
    return f"**{statistics.geometric_mean(ratios):.2f}**"


def drawn(rows: Sequence[Row]) -> Plot:
    """The page's plot."""
    return Plot(
        "speedup over the plain cell",
        [
            Point(gain.name, row.model, gain.ratio, gain.low, gain.high)
            for row in rows
            for gain in reversed(row.gains)
            if gain.ratio
        ],
    )


_PAGE = """# Cells with a loop

A loop that reads a number, prints, or fills a list cannot be captured whole. `%%dynamo` goes
through it turn by turn, and what stands between the breaks is captured. Such cells are run through
`%%dynamo compare` (`python -m benchmarks.loops`): the plain cell is eager, interleaved with each
backend, with 95 % intervals. Graphs, their calls in one run of the cell, and operations are those
of {counted}, the third time that the cell runs. `aot_eager` runs the captured graphs by
torch's own kernels: what it loses or gains is Dynamo's doing.

{rows}

![The same speedups by cell](images/loops.svg)

{reasons}

{texts}

{described}
"""


PART = Part(
    "loops",
    "Cells with a loop under %%dynamo.",
    list(CELLS),
    Row,
    document,
    lambda row: ", ".join(f"{gain.name} {_shown(gain)}" for gain in row.gains),
    budget=20.0,
    timeout=600.0,
    plot=drawn,
)

if __name__ == "__main__":
    sys.exit(PART.measure(PART.parser().parse_args()))
