"""Small models of libraries on PyPI, each under each engine in a process of its own."""

from __future__ import annotations

from benchmarks import workers
from benchmarks.libraries.run import INSTALLED, RUNS, Row, measure
from benchmarks.libraries.table import page
from benchmarks.part import Part

PART = Part(
    "libraries",
    __doc__.strip(),
    RUNS,
    Row,
    page,
    lambda row: row.status,
    measure,
    budget=None,
    timeout=300.0,
    needs=(INSTALLED, "The libraries are not installed. Run `make libraries`."),
)

if __name__ == "__main__":
    workers.command(PART.run)
