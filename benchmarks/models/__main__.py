"""The model zoo through every CPU engine: ``python -m benchmarks.models --write docs/models.md``.

Each model runs under each backend in a process of its own. Rows are stored as they come, so that
an interrupted run goes on where it was; ``--again`` measures anew what is already there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from tqdm import tqdm

from benchmarks import machine, packed_rows, workers
from benchmarks.backends import BACKENDS
from benchmarks.models.row import Row
from benchmarks.models.run import here, rows
from benchmarks.models.table import render
from benchmarks.packed_rows import PackedRows
from benchmarks.part import add_storing
from benchmarks.workers import Bounds
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import Form, add_arguments

DTYPES = ("float32", "bfloat16")


def available(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The backends that run here, and why the others do not."""
    from dynamo_ext.backends import registry

    there, missing = [], {}
    for name in names:
        try:
            answer = registry.probe(registry.get(name))
        except ImportError as error:
            missing[name] = f"Its module cannot be imported: {error}"
            continue
        if answer.available:
            there.append(name)
        else:
            missing[name] = answer.reason
    return there, missing


KEYS = ("model", "backend", "dtype")
"""What tells a row from the others, in this order."""


def measure(chosen: argparse.Namespace, store: PackedRows) -> None:
    """Fill the store with the rows asked for that it does not have."""
    backends, missing = available(chosen.backends)
    form = Form.of(chosen)
    measured_with = machine.sentence(form)
    # What came to be available is missing no more.
    known = store.head.get("missing", {})
    store.head["missing"] = {k: v for k, v in known.items() if k not in backends} | missing
    store.save()
    bounds = Bounds(chosen.timeout, chosen.memory)
    for dtype in chosen.dtypes.split(","):
        for backend in backends:
            asked = [(model, backend, dtype) for model in chosen.models]
            wanted = [model for model, *_ in store.missing(asked, chosen)]
            groups = [wanted] if form.tiny or chosen.together else [[m] for m in wanted]
            for group in tqdm(groups, desc=f"{backend}, {dtype}", unit="process", disable=None):
                for row in rows(group, backend, dtype, form=form, bounds=bounds):
                    store.keep(replace(row, machine=measured_with).to_dict())
                    tqdm.write(f"{row.status:7}{row.key}  {row.reason}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, store, write; 1 where a result is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.models", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--models", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="NAME"
    )
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS), metavar="NAME")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="separated by commas")
    add_arguments(parser)
    parser.add_argument(
        "--together", action="store_true", help="a backend's models in one process: faster"
    )
    add_storing(parser, Bounds.seconds)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.here:
        return here(chosen)
    form = Form.of(chosen)
    store = PackedRows(chosen.rows or packed_rows.own("models", form), KEYS)
    if not chosen.only_write:
        measure(chosen, store)
    if chosen.write:
        # Whether a result is right hardly depends on the machine, so the page has those rows of
        # others that there are none of here, and says so.
        elsewhere = [] if chosen.rows else packed_rows.others("models", form)
        stores = [*(PackedRows(path, KEYS) for path in elsewhere), store]
        known = {each.key(row): row for each in stores for row in each.all()}
        found = [Row.from_dict(known[key]) for key in sorted(known)]
        chosen.write.write_text(render(found, store.head.get("missing", {})))
    return int(any(row["status"] == "wrong" for row in store.all()))


if __name__ == "__main__":
    workers.command(main)
