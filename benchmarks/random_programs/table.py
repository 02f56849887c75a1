"""The page of the random programs, written from their rows."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from benchmarks.markdown import cell, table, without_numbers
from benchmarks.random_programs.known import known
from benchmarks.random_programs.program import TORCHS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.random_programs.check import Row

_HEAD = (
    "Engine | Programs: | Right: | Torch's own: | Unsure: | Wrong: | Crashes, hangs: | In engine: "
    "| Fell back: | Strides:"
)

_PAGE = """# Random programs

Written by `python -m benchmarks.random_programs`: do not edit. A program is drawn by a seed: three
to ten statements of views, in-place operations, sizes, control flow and arithmetic on one to three
tensors of nine dtypes, some of which learn or share memory, called {calls} times with other values,
sizes, strides and offsets. `python -m benchmarks.random_programs --show SEED` prints one, ready to
run. Each call is compared with eager's, and where the two disagree with float64's: results, dtypes,
what became of the inputs, gradients, exceptions, strides of views of inputs, which results share
memory, and what writing to a result changes.

- **Right**: nothing differs that is farther from the exact result than [torch allows its own
  backends](models.md).
- **Torch's own**: the same is wrong under plain `torch.compile` with `aot_eager` or Inductor.
- **Unsure**: eager's own result moves as far where its inputs change by half of their last digit.
- **In engine**: of the operations of all graphs.
- **Fell back**: programs in which an engine failed on a part that it had accepted, or was found
  wrong at its first call; the results are eager's, and the report says so.
- **Strides**: programs of which a result that is no view of an input has other strides than
  eager's ([limits](limits.md)).

{totals}

{machine}

## Wrong

{wrong}

## Torch's own

Of `aot_eager` and Inductor under plain `torch.compile`, and of how many programs.

{torchs}

## What was reported where engines fell back to eager

{faults}

## Small products in sequence

`python -m benchmarks.random_programs.sequences` draws programs of another kind: layers of a width
of at most 64 on at most ten rows, between them elementwise operations and numbers in tensors
without dimensions, called with one size or two. Inputs or layers learn in about four of ten. Each
runs in a process of its own, on one thread or two. Without what keeps OpenVINO from fusing such
products ([limits](limits.md)), about one in five ended its process.

{sequences}
"""


def page(rows: Sequence[Row], machine: str, calls: int, sequences: Sequence[Row] = ()) -> str:
    """The whole page.

    Parameters
    ----------
    rows
        Of every engine.
    machine
        What they were measured with, a line for each machine.
    calls
        Of each program.
    sequences
        Rows of ``sequences``.
    """
    return _PAGE.format(
        calls=calls,
        totals=_totals(rows),
        machine=machine.replace("\n", "\n\n"),
        wrong=_wrong(rows),
        torchs=_torchs(rows),
        faults=_faults(rows),
        sequences=f"{_totals(sequences)}\n\n{_wrong(sequences)}",
    )


def _totals(rows: Sequence[Row]) -> str:
    engines = dict.fromkeys(row.engine for row in rows)
    lines = (_total(engine, [r for r in rows if r.engine == engine]) for engine in engines)
    return table(_HEAD, lines)


def _total(engine: str, rows: Sequence[Row]) -> list[object]:
    counts = Counter(row.status for row in rows)
    operations = sum(row.operations for row in rows)
    share = f"{sum(row.in_engine for row in rows) / operations:.0%}" if operations else "–"
    control = engine in TORCHS
    # What a control has wrong is torch's own.
    return [
        f"`{engine}`",
        len(rows),
        counts["right"],
        counts["wrong"] if control else counts["torch"],
        counts["unsure"],
        "–" if control else counts["wrong"],
        counts["crash"] + counts["timeout"],
        share,
        "–" if control else sum(bool(row.faults) for row in rows),
        sum(bool(row.layouts) for row in rows),
    ]


def _wrong(rows: Sequence[Row]) -> str:
    parts = []
    for row in rows:
        if row.status not in ("wrong", "crash", "timeout") or row.engine in TORCHS:
            continue
        said = f"{row.kind}, call {row.call}: {row.reason}" if row.kind else row.reason
        parts.append(f"`{row.engine}`, program {row.seed}, {row.status}. {cell(said)}\n")
        if row.minimal:
            parts.append(f"```python\n{row.minimal.strip()}\n```\n")
    return "\n".join(parts) or "Nothing."


def _torchs(rows: Sequence[Row]) -> str:
    groups: dict[str, tuple[str, Counter[str], int]] = {}
    for row in rows:
        if row.engine not in TORCHS or row.status != "wrong":
            continue
        found = known(row.kind, row.reason)
        what = found.what if found else f"{row.kind}: {_plain(row.reason)}"
        issue = (
            f"[{found.issue}](https://github.com/pytorch/pytorch/issues/{found.issue})"
            if (found and found.issue)
            else ""
        )
        _, counted, _ = groups.setdefault(what, (issue, Counter(), row.seed))
        counted[row.engine] += 1
    groups_by_count = sorted(groups.items(), key=lambda each: -each[1][1].total())
    return table(
        "What | `aot_eager`: | Inductor: | First program: | Issue",
        [
            [cell(what), counted["aot_eager"], counted["inductor"], seed, issue]
            for what, (issue, counted, seed) in groups_by_count
        ],
    )


def _faults(rows: Sequence[Row]) -> str:
    counted = Counter((row.engine, _plain(said)) for row in rows for said in row.faults)
    return table(
        "Engine | Programs: | What was said",
        [
            [f"`{engine}`", number, cell(said)]
            for (engine, said), number in sorted(
                counted.items(), key=lambda each: (each[0][0], -each[1])
            )
        ],
    )


def _plain(said: str) -> str:
    """Without the numbers and names that differ from one program to the next."""
    return without_numbers(re.sub(r"'[^']*'", "…", said))
