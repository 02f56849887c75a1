"""Small models of libraries on PyPI, each under each engine in a process of its own."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from benchmarks.libraries.run import INSTALLED, RUNS, Row
from benchmarks.libraries.table import page
from benchmarks.part import Part

PART = Part(
    name="libraries",
    about=__doc__.strip(),
    models=RUNS,
    row=Row,
    page=page,
    said=lambda row: row.status,
    budget=None,
    timeout=300.0,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, store, write; 1 where a model is not right, 2 where nothing is installed."""
    given = PART.parser().parse_args(arguments)
    if not given.only_write and not INSTALLED.exists():
        print("The libraries are not installed. Run `make libraries`.")
        return 2
    return PART.measure(given)


if __name__ == "__main__":
    # Leave as on an interrupt, so that the process under way ends, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
