"""Whole notebooks of libraries, each under each backend: ``python -m benchmarks.notebooks``."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import workers
from benchmarks.markdown import cell, table
from benchmarks.notebooks.run import INSTALLED, MORE, RUNS, Row, measure
from benchmarks.part import Part

_PAGE = """# First runs of whole notebooks

Written by `make notebooks-first-run`: do not edit. Notebooks of libraries, from their source
distributions on PyPI, are run from the first cell to the last in a kernel of their own. First they
run plainly, then with `%%dynamo -b BACKEND --quiet` before every cell, but those that are empty or
have a line with `%` or `!`. The kernel finds nothing compiled on disk. Nothing is changed in a
notebook, and no environment variable (`CI`) makes its loops shorter. `torch.manual_seed(0)` comes
before.

- **Plain, first**: wall-clock seconds of all cells, with loading the extension and compiling;
  medians of the runs. **CPU**: seconds of all threads in the same runs.
- **Limit**: twice the plain run, and {limits}.
- **Under, compared**: cells with the magic, and cells whose texts are the same in each plain run.
  What these print, evaluate to and raise is compared: numbers to three digits, the rest exactly.

{over} of {count} first runs were over the limit. {different} of {count} put out something else.

{rows}

{machine}

## What differs

{differences}

## Where the most time went

{slowest}

## What went wrong

{wrong}
"""


def page(rows: Sequence[Row], machine: str) -> str:
    """The whole page of rows in the order of the table, and of the machine's description."""
    named = [(*row.model.partition(": ")[::2], row) for row in rows]
    good = [(notebook, f"`{backend}`", row) for backend, notebook, row in named if not row.error]
    return _PAGE.format(
        limits=", ".join(f"{seconds:.0f} s more on `{name}`" for name, seconds in MORE.items()),
        over=sum(row.first > row.limit for _, _, row in good),
        different=sum(bool(row.differences) for _, _, row in good),
        count=len(good),
        rows=table(
            "Notebook | Library | Backend | Plain s | First s | Limit s | Within | Plain CPU s"
            " | First CPU s | Cells | Under | Compared | Different",
            [
                [notebook, row.library, backend, f"{row.plain:.1f}", f"{row.first:.1f}",
                 f"{row.limit:.1f}", "yes" if row.first <= row.limit else "no",
                 f"{row.plain_cpu:.1f}", f"{row.first_cpu:.1f}", row.cells, row.under,
                 row.compared, len(row.differences)]
                for notebook, backend, row in sorted(good, key=lambda each: each[0].lower())
            ],
        ),
        machine=machine,
        differences=table(
            "Notebook | Backend | What differs",
            [[n, backend, cell(said)] for n, backend, row in good for said in row.differences],
        ),
        slowest=table(
            "Notebook | Backend | What the report says",
            [[notebook, backend, cell(row.slowest)] for notebook, backend, row in good],
        ),
        wrong=table(
            "Notebook | Backend | What was said",
            [[n, f"`{b}`", cell(row.error)] for b, n, row in named if row.error],
        ),
    )  # fmt: skip


PART = Part(
    "notebooks",
    __doc__.strip(),
    RUNS,
    Row,
    page,
    lambda row: f"plain {row.plain:.1f} s, first {row.first:.1f} s, {row.differences}",
    measure,
    budget=None,
    timeout=7200.0,
    needs=(INSTALLED, "The notebooks are not there. Run `make notebooks-first-run`."),
)


def main() -> int:
    """Measure what is not there yet, store, write."""
    parser = PART.parser()
    parser.add_argument("--rounds", type=int, default=3, help="runs under each backend")
    return PART.run(parser)


if __name__ == "__main__":
    workers.command(main)
