"""``auto`` over the model zoo: ``python -m benchmarks.auto --write docs/auto.md``.

Each model in a process of its own: its graphs are raced, and then ``auto``, every backend alone and
what people run without us are compared in one interleaved schedule. Rows are stored as they come.
"""

from __future__ import annotations

from benchmarks import workers
from benchmarks.auto.run import Row, measure
from benchmarks.auto.table import document, drawn, shown
from benchmarks.part import Part
from benchmarks.zoo import MODELS

PART = Part(
    "auto",
    "auto over the model zoo, beside every backend alone and what people run without us.",
    list(MODELS),
    Row,
    document,
    lambda row: shown(row.auto),
    measure,
    budget=30.0,
    timeout=900.0,
    plot=drawn,
)


def main() -> int:
    """Measure what is not there yet, store, write."""
    parser = PART.parser()
    parser.add_argument("--backends", default="", help="who races, by commas")
    parser.add_argument("--no-peers", action="store_true", help="our backends alone")
    parser.add_argument("--race", type=float, default=5.0, help="seconds for a graph's race")
    return PART.run(parser)


if __name__ == "__main__":
    workers.command(main)
