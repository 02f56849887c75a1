"""Small models of transformers' architectures: ``python -m benchmarks.architectures``.

Each architecture runs under each engine in a process of its own. Rows are stored as they come, so
that an interrupted run goes on where it was. The exit status is 1 where an engine is wrong.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from benchmarks import machine, packed_rows, workers
from benchmarks.architectures import forked, table
from benchmarks.architectures.make import Made, architectures, search
from benchmarks.architectures.run import Row, measure
from benchmarks.backends import without
from benchmarks.part import add_storing
from benchmarks.stored_row import StoredRow
from benchmarks.workers import Bounds

ENGINES = without("ts", "ofi", "lazy", "onnx2tf")
"""Not torch's own interpreters, nor ``onnx2tf``, which takes long to compile."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make, run, store, write; 1 where an engine is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.architectures", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--architectures", nargs="+", default=architectures(), metavar="NAME")
    parser.add_argument("--engine", nargs="+", default=list(ENGINES), metavar="NAME")
    parser.add_argument("--list", action="store_true", help="say what can be made, and run nothing")
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
        _make(given.architectures, store, bounds, again=given.list and given.again)
    if given.list:
        for made in _made(store):
            print(f"{made.architecture}: {made.error or f'{made.model}, {made.parameters:,}'}")
        return 0
    if not given.only_write:
        _run(given, store, bounds)
    rows = [Row.from_dict(row) for row in store.all() if row["engine"]]
    if given.write:
        text = table.page(_made(store), rows, store.head["machine"], ENGINES)
        given.write.write_text(text, encoding="utf-8")
    return int(any(row.status == "wrong" for row in rows))


def _make(
    names: Sequence[str], store: packed_rows.PackedRows, bounds: Bounds, *, again: bool
) -> None:
    """Find out of each architecture how to make it, where that is not known."""
    wanted = [name for name in names if again or ("", name) not in store]
    for name in tqdm(wanted, desc="making", disable=None):
        found = forked.answer(functools.partial(_searched, name), bounds)
        made = Made(name, error=found) if isinstance(found, str) else Made.from_dict(found)
        store.add({"engine": "", **_short(made, Made(""))})
        store.save()


def _made(store: packed_rows.PackedRows) -> list[Made]:
    rows = [dict(row) for row in store.all() if not row["engine"]]
    return [Made.from_dict({k: v for k, v in row.items() if k != "engine"}) for row in rows]


def _run(given: argparse.Namespace, store: packed_rows.PackedRows, bounds: Bounds) -> None:
    """Fill the store with the rows asked for that it does not have."""
    asked = set(given.architectures)
    known = [made for made in _made(store) if not made.error and made.architecture in asked]
    for engine in given.engine:
        wanted = [m for m in known if given.again or (engine, m.architecture) not in store]
        for made in tqdm(wanted, desc=engine, disable=None):
            found = forked.answer(functools.partial(_measured, made, engine), bounds)
            row = (
                Row(made.architecture, engine, made.model, "failed", reason=found)
                if isinstance(found, str)
                else Row.from_dict(found)
            )
            store.add(_short(row, Row("", "")))
            store.save()
            if row.status != "right":
                said = f"{row.status}: {row.step}: {row.reason}"
                tqdm.write(f"{engine}: {row.architecture}: {said}")


def _searched(name: str) -> dict[str, Any]:
    return search(name).to_dict()


def _measured(made: Made, engine: str) -> dict[str, Any]:
    return measure(made, engine).to_dict()


def _short(row: StoredRow, usual: StoredRow) -> dict[str, object]:
    """What of a row is not as usual."""
    default = usual.to_dict()
    return {name: value for name, value in row.to_dict().items() if value != default[name]}


if __name__ == "__main__":
    workers.command(main)
