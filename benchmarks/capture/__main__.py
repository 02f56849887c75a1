"""What Dynamo captures of the zoo: ``python -m benchmarks.capture --write docs/capture.md``.

Each model in a process of its own, captured and run as it is. Rows are stored as they come.
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING

from benchmarks import workers
from benchmarks.capture.run import Row, measure
from benchmarks.markdown import table
from benchmarks.part import Part
from benchmarks.plot import Plot, Point
from benchmarks.zoo import MODELS
from dynamo_ext.formatting import count

if TYPE_CHECKING:
    from collections.abc import Sequence

LONG = 0.005
"""Seconds: on models as long as this the share that capture costs is judged."""

BANDS = ((1, 1), (2, 10), (11, 100), (101, sys.maxsize))
"""Graph calls in a call of the model, as Update 4 counts them."""


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    good = [row for row in rows if not row.error]
    failed = [[row.model, row.error] for row in rows if row.error]
    reasons = [
        f"- {row.model}: {'; '.join(row.reasons)}" for row in good if row.reasons and row.outside
    ]
    return _PAGE.format(
        summary=_summary(good) if good else "",
        rows=table(_HEAD, [*map(_cells, good), *failed]),
        reasons="\n".join(reasons) or "None.",
        described=described,
    )


_HEAD = (
    "model | operations: | captured: | captured, by time: | graphs a call: | mean size: | largest: "
    "| breaks: | eager, ms: | eager over captured: | µs a call: | first call, s:"
)


def _cells(row: Row) -> list[str]:
    sizes = row.sizes or (0,)
    return [
        row.model,
        str(row.inside + row.outside),
        f"{row.share:.1%}",
        f"{row.time_share:.1%}",
        str(row.graph_calls),
        f"{statistics.mean(sizes):.0f}",
        str(max(sizes)),
        str(row.breaks),
        f"{row.eager_seconds * 1e3:.2f}",
        f"{row.ratio:.3f} ({row.low:.3f}–{row.high:.3f})",
        f"{row.overhead_seconds * 1e6:.0f}",
        f"{row.first_seconds:.1f}",
    ]


def _summary(rows: Sequence[Row]) -> str:
    whole = sum(not row.outside for row in rows)
    bands = []
    for low, high in BANDS:
        number = sum(low <= row.graph_calls <= high for row in rows)
        name = str(low) if low == high else f"{low}–{high}" if high < sys.maxsize else f"{low} on"
        bands.append(f"{number} with {name}")
    none = sum(not row.graph_calls for row in rows)
    bands += [f"{none} with none"] if none else []
    sizes = [size for row in rows for size in row.sizes] or [0]
    shares = [row.time_share for row in rows]
    operations = sum(row.inside for row in rows) / sum(row.inside + row.outside for row in rows)
    long = [row.ratio for row in rows if row.eager_seconds >= LONG and row.ratio]
    short = [row for row in rows if row.eager_seconds < LONG]
    lines: list[list[object]] = [
        ["models", len(rows), "51 of TorchBench (Update 4)"],
        ["operations captured, mean over models by time", f"{statistics.mean(shares):.1%}", "83 %"],
        ["operations captured, of all", f"{operations:.1%}", ""],
        ["models captured whole", f"{whole} of {len(rows)}", ""],
        [
            "graph calls a model",
            ", ".join(bands),
            "27 with 1, 9 with 2–10, 10 with 11–100, 5 with more",
        ],
        ["operations in a graph", f"mean {statistics.mean(sizes):.0f}, largest {max(sizes)}", ""],
    ]
    if long:
        mean, worst = statistics.geometric_mean(long), min(long)
        lines.append(
            [
                f"eager over captured, {count(len(long), 'model')} of 5 ms and more",
                f"geometric mean {mean:.3f}, worst {worst:.3f}",
                "under 1 % on average; worst 0.94",
            ]
        )
    if short:
        each = statistics.median(row.overhead_seconds for row in short) * 1e6
        about = f"the same, {count(len(short), 'shorter model')}"
        lines.append([about, f"median {each:.0f} µs a call", ""])
    return table(" | here | the posts, of 2021", lines)


def drawn(rows: Sequence[Row]) -> Plot:
    """The page's plot: what capture costs the models that are long enough to tell."""
    long = [row for row in rows if row.eager_seconds >= LONG and row.ratio]
    points = [Point("captured", row.model, row.ratio, row.low, row.high) for row in long]
    return Plot("plain eager's time over that of captured code", points)


_PAGE = """# What is captured, and what capturing costs

`python -m benchmarks.capture` runs each model of the zoo, in a process of its own and under
`no_grad`, through a backend that runs every captured graph as it is. Operations are ATen's, as
they are dispatched, in and outside of captured graphs; their time is measured one by one. *Eager
over captured* is plain eager's time over that of the `eager` backend, interleaved
(`dynamo_ext.compare`), with its 95 % interval: below 1, guards and calls of graphs cost something.
Training steps run with gradients, which are captured as a graph of their own (AOTAutograd's).
A library may do something else while it is traced: the Mamba of transformers asks whether it is,
and then computes its scan in parallel, with other operations, which in eager are slower.

{summary}

## By model

{rows}

![Eager over captured, on models of 5 ms and more](images/capture.svg)

## Why the rest was not captured

{reasons}

{described}
"""


PART = Part(
    "capture",
    "What Dynamo captures of the zoo, and what that costs.",
    list(MODELS),
    Row,
    document,
    lambda row: f"{row.time_share:.1%} {row.ratio:.3f}",
    measure,
    budget=8.0,
    timeout=300.0,
    plot=drawn,
)

if __name__ == "__main__":
    workers.command(PART.run)
