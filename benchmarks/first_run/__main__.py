"""First and later runs of cells that people write: ``python -m benchmarks.first_run``.

Each cell runs under each backend in a process of its own. Rows are stored as they come, so that an
interrupted study goes on where it was. The exit status is 1 where a result differs.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tqdm import tqdm

from benchmarks import machine, packed_rows, workers
from benchmarks.first_run import table
from benchmarks.first_run.cells import CELLS
from benchmarks.first_run.row import Row
from benchmarks.first_run.run import BACKENDS, STAGES, Measurement
from benchmarks.part import add_storing
from benchmarks.workers import Bounds, Ended

LIMIT = 240.0
"""Seconds for the first run; the plain one before it and the later ones have as long."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, store, write; 1 where a result differs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.first_run", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--cells", type=some(CELLS), default=list(CELLS), metavar="NAME,NAME")
    parser.add_argument("--backends", type=some(BACKENDS), default=BACKENDS, metavar="NAME,NAME")
    add_storing(parser, LIMIT)
    parser.add_argument("--limit", type=float, dest="timeout", help="the same as --timeout")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.here:
        measurement = Measurement(given.backends[0], given.cells[0])
        return workers.go_through(STAGES, lambda stage: [measurement.take(stage)])
    store = packed_rows.PackedRows(given.rows or packed_rows.own("first_run"), ("backend", "cell"))
    bounds = Bounds(given.timeout, given.memory)
    for backend, cell in store.missing(itertools.product(given.backends, given.cells), given):
        row = measured(backend, cell, bounds)
        store.note_machine(machine.sentence())
        store.keep(row.to_dict())
        tqdm.write(f"{backend}: {cell}: {table.said(row)}")
    rows = [Row.from_dict(row) for row in store.all()]
    rows.sort(key=lambda row: (BACKENDS.index(row.backend), list(CELLS).index(row.cell)))
    if given.write:
        given.write.write_text(table.page(rows, store.head.get("machine", "")), encoding="utf-8")
    return int(any(row.first is not None and row.first.difference for row in rows))


def measured(backend: str, cell: str, bounds: Bounds) -> Row:
    """The row of a cell under a backend from a process that finds nothing compiled on disk."""
    row = Row(backend, cell).to_dict()
    with tempfile.TemporaryDirectory() as folder:
        caches = {
            "DYNAMO_EXT_CACHE": str(Path(folder, "ours")),
            "TORCHINDUCTOR_CACHE_DIR": str(Path(folder, "inductor")),
        }
        words = ["--backends", backend, "--cells", cell, "--here"]
        try:
            with contextlib.closing(
                workers.rows("first_run", words, bounds, environment=caches)
            ) as found:
                for stage, said in found:
                    if isinstance(said, Ended):
                        row["error"] = f"{stage}: {said.reason}"
                        break
                    row |= {name: fact for name, fact in said.items() if fact}
                    if stage == STAGES[-1]:
                        break
        except workers.WorkerError as error:
            row["error"] = str(error)
    return Row.from_dict(row)


def some(known: Iterable[str]) -> Callable[[str], list[str]]:
    """What takes names from a list with commas, of which a name may have some itself."""

    def names(text: str) -> list[str]:
        found = []
        rest = text.strip(", ")
        while rest:
            # The longest: one name may be the beginning of another.
            fits = [name for name in known if f"{rest},".startswith(f"{name},")]
            if not fits:
                message = f"{rest} is none of: {'; '.join(known)}"
                raise argparse.ArgumentTypeError(message)
            found.append(max(fits, key=len))
            rest = rest.removeprefix(found[-1]).lstrip(", ")
        return found

    return names


if __name__ == "__main__":
    workers.command(main)
