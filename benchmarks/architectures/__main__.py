"""Small models of transformers' architectures: ``python -m benchmarks.architectures``.

Each architecture runs under each engine in a process of its own. Rows are stored as they come, so
that an interrupted run goes on where it was. The exit status is 1 where an engine is wrong.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Sequence

from tqdm import tqdm

from benchmarks import machine, packed_rows, workers
from benchmarks.architectures import forked, table
from benchmarks.architectures.make import Made, architectures, search
from benchmarks.architectures.run import Row, measure
from benchmarks.backends import without
from benchmarks.part import add_storing
from benchmarks.workers import Bounds

ENGINES = without("ts", "ofi", "onnx2tf")
"""Not torch's own interpreters, nor ``onnx2tf``, which takes long to compile."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make, run, store, write; 1 where an engine is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.architectures", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--architectures", nargs="+", default=architectures(), metavar="NAME")
    parser.add_argument("--engine", nargs="+", default=list(ENGINES), metavar="NAME")
    add_storing(parser, 300.0)
    given = parser.parse_args(arguments)
    path = given.rows or packed_rows.of_any_machine("architectures")
    store = packed_rows.PackedRows(path, ("engine", "architecture"))
    bounds = Bounds(given.timeout, given.memory)
    if not given.only_write:
        # Its thread would be there where a process is forked.
        tqdm.monitor_interval = 0
        forked.prepare()
        store.note_machine(machine.sentence())
        _make(given, store, bounds)
    _run(given, store, bounds)
    rows = [Row.from_dict(row) for row in store.all() if row["engine"]]
    if given.write:
        text = table.page(_made(store), rows, store.head["machine"], ENGINES)
        given.write.write_text(text, encoding="utf-8")
    return int(any(row.status == "wrong" for row in rows))


def _make(given: argparse.Namespace, store: packed_rows.PackedRows, bounds: Bounds) -> None:
    """Find out of each architecture how to make it, where that is not known."""
    keys = [("", name) for name in given.architectures]
    for _, name in tqdm([key for key in keys if key not in store], desc="making", disable=None):
        found = forked.answer(functools.partial(search, name), bounds)
        made = Made(name, error=found) if isinstance(found, str) else found
        store.keep({"engine": "", **made.short(Made(""))})


def _made(store: packed_rows.PackedRows) -> list[Made]:
    rows = [dict(row) for row in store.all() if not row["engine"]]
    return [Made.from_dict({k: v for k, v in row.items() if k != "engine"}) for row in rows]


def _run(given: argparse.Namespace, store: packed_rows.PackedRows, bounds: Bounds) -> None:
    """Fill the store with the rows asked for that it does not have."""
    known = {made.architecture: made for made in _made(store) if not made.error}
    names = [name for name in known if name in set(given.architectures)]
    for engine, name in store.missing(itertools.product(given.engine, names), given):
        found = forked.answer(functools.partial(measure, known[name], engine), bounds)
        row = found
        if isinstance(row, str):
            row = Row(name, engine, known[name].model, "failed", reason=row)
        store.keep(row.short(Row("", "")))
        if row.status != "right":
            tqdm.write(f"{engine}: {name}: {row.status}: {row.step}: {row.reason}")


if __name__ == "__main__":
    workers.command(main)
