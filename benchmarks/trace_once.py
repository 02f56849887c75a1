"""XLA traced once over XLA traced at every call: ``python -m benchmarks.trace_once --write …``.

The models are those of PyTorch pull request 87741's table that the zoo has, ``xla`` and
``xla_trivial`` its two ways. Each model in a process of its own; rows are stored as they come.
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING

from benchmarks.interval import told
from benchmarks.part import Part
from benchmarks.plot import Plot, Point
from benchmarks.trace_once_run import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

MODELS = (
    *("ResNet-18", "ResNet-50", "ResNeXt-50", "AlexNet", "MobileNetV2", "MNASNet"),
    *("VGG-16", "BERT-base", "SqueezeNet", "ViT"),
)


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    good = [row for row in rows if not row.error]
    lines = ["| model | every call, ms | once, ms | speedup |", "|---|--:|--:|--:|"]
    for row in good:
        every, once = row.every_seconds * 1e3, row.once_seconds * 1e3
        gain = told(row.ratio, row.low, row.high)
        lines.append(f"| {row.model} | {every:.1f} | {once:.1f} | {gain} |")
    if good:
        mean = statistics.geometric_mean(row.ratio for row in good)
        lines.append(f"| **geometric mean** | | | **{mean:.2f}** |")
    lines += [f"| {row.model} | {row.error} |" for row in rows if row.error]
    return _PAGE.format(rows="\n".join(lines), described=described)


def drawn(rows: Sequence[Row]) -> Plot:
    """The page's plot."""
    points = [Point("once", row.model, row.ratio, row.low, row.high) for row in rows]
    return Plot("time of tracing at every call over that of tracing once", points)


_PAGE = """# XLA: traced once, and traced at every call

`python -m benchmarks.trace_once` compares `xla`, which traces a graph once and reuses what XLA
compiled, with `xla_trivial`, which traces it anew at every call, in one interleaved schedule.
Pull request 87741 had a geometric mean of 1.38 over its ten models (1.50 later), on a GPU of 2022
and with Lazy Tensors as the tracer; here it is JAX on a CPU, and larger inputs hide more of it.

{rows}

![The same ratios by model, with their intervals](images/trace-once.svg)

{described}
"""


PART = Part(
    "trace_once",
    "XLA traced once over XLA traced at every call.",
    MODELS,
    Row.from_dict,
    lambda model, why: Row(model, error=why),
    document,
    lambda row: f"{row.ratio:.2f}",
    budget=15.0,
    timeout=600.0,
    plot=drawn,
)

if __name__ == "__main__":
    sys.exit(PART.measure(PART.parser().parse_args()))
