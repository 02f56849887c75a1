"""What guards cost a model: ``python -m benchmarks.guards --write docs/guards.md``.

Each model in a process of its own.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks.guards_run import MODEL_RIVALS, Row, Speedup
from benchmarks.interval import told
from benchmarks.part import Part

if TYPE_CHECKING:
    from collections.abc import Sequence


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    titles = (
        *("model", "weights", "guards", "eager, ms", "backend", "guarded", "skipped"),
        *("saved, ms", "warm, ms", "peer", "peer's"),
    )
    lines = [f"| {' | '.join(titles)} |", "|---|--:|--:|--:|---|--:|--:|--:|--:|---|--:|"]
    lines += [_line(row) for row in rows if not row.error]
    lines += [f"| {row.model} | {row.error} |" for row in rows if row.error]
    return _PAGE.format(rows="\n".join(lines), described=described)


def _line(row: Row) -> str:
    cells = [
        row.model,
        str(row.weights),
        str(row.guards),
        f"{row.eager_seconds * 1e3:.2f}",
        f"`{row.backend}`",
        _told(row.guarded),
        _told(row.skipped),
        f"{row.saved * 1e3:.2f}",
        f"{row.warm * 1e3:.2f}",
        row.peer,
        _told(row.rival),
    ]
    return f"| {' | '.join(cells)} |"


def _told(speedup: Speedup | None) -> str:
    return told(speedup.ratio, speedup.low, speedup.high) if speedup else ""


_PAGE = """# What guards cost

Before each call of compiled code, Dynamo checks that what it was compiled for still holds: of
every weight the kind, of every module its attributes and hooks. That is the price of changing a
model in a notebook and being right, here as under `torch.compile`. How much is it?

One model, compiled once, was called with its guards and without most of them
(`torch.compiler.set_stance(skip_guard_eval_unsafe=True)`, which torch calls unsafe, for good
reason: what changes after it goes unnoticed). Beside it, in the same interleaved rounds, is the
peer that runs the same engine and checks nothing (`python -m benchmarks.guards`). The backend
still looks whether frozen weights have changed. Speedups are over eager, with 95 % intervals.
*Saved* is the median over rounds of what skipping saved a call; *warm* what checking takes over
and over, with all that it reads in the processor's caches, which is what a report says.

{rows}

{described}
"""


PART = Part(
    "guards",
    "What checking before each call costs.",
    list(MODEL_RIVALS),
    Row.from_dict,
    lambda model, why: Row(model, error=why),
    document,
    lambda row: f"{_told(row.guarded)}, without {_told(row.skipped)}",
    budget=20.0,
    timeout=900.0,
)

if __name__ == "__main__":
    sys.exit(PART.measure(PART.parser().parse_args()))
