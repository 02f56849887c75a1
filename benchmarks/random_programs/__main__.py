"""Random programs through every CPU engine: ``python -m benchmarks.random_programs``.

Each engine runs in a process of its own, and in another one after a crash or a hang. Rows are
stored as they come, so that an interrupted run goes on where it was. The exit status is 1 where
an engine is wrong.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from tqdm import tqdm

from benchmarks import machine, workers
from benchmarks.backends import ENGINES
from benchmarks.packed_rows import PackedRows, of_any_machine
from benchmarks.part import add_storing
from benchmarks.random_programs import sequences, table
from benchmarks.random_programs.check import USUAL, Row, check, minimised
from benchmarks.random_programs.generate import CALLS, program
from benchmarks.random_programs.program import TORCHS
from benchmarks.workers import Bounds

_SAVE_SECONDS = 30.0
MINIMISE_SECONDS = 30.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, store, write; 1 where an engine is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.random_programs", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--programs", type=int, default=2000, help="for each engine")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--engine", nargs="+", default=[*TORCHS, *ENGINES], metavar="NAME")
    add_storing(parser, 60.0)
    parser.add_argument("--show", type=int, metavar="SEED", help="print a program, and run nothing")
    parser.add_argument("--here", type=int, nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.here:
        return here(given.here, given.engine[0])
    if given.show is not None:
        print(program(given.show).script(given.engine[0]))
        return 0
    store = PackedRows(given.rows or of_any_machine("random-programs"), sequences.KEYS)
    wrong = 0
    for engine in [] if given.only_write else given.engine:
        seeds = range(given.seed, given.seed + given.programs)
        wanted = [seed for seed in seeds if given.again or (engine, seed) not in store]
        wrong += _run(engine, wanted, Bounds(given.timeout, given.memory), store)
    if given.write:
        found = [Row.from_dict(row) for row in store.all()]
        order = [*TORCHS, *ENGINES]
        found.sort(key=lambda row: (order.index(row.engine), row.seed))
        others = [Row.from_dict(row) for row in PackedRows(sequences.STORE, sequences.KEYS).all()]
        text = table.page(found, store.head["machine"], CALLS, others)
        given.write.write_text(text, encoding="utf-8")
    return int(bool(wrong))


def _run(engine: str, seeds: Sequence[int], bounds: Bounds, store: PackedRows) -> int:
    """Fill the store, and say how many programs are wrong by the engine's own fault."""
    store.note_machine(machine.sentence())
    faults = set()
    saved = time.monotonic()
    told = tqdm(total=len(seeds), desc=engine, disable=None)
    for row in rows(engine, seeds, bounds):
        store.add(row.short(USUAL))
        if row.status in ("wrong", "crash", "timeout") and engine not in TORCHS:
            faults.add(row.seed)
            said = f"{row.kind} at call {row.call}: {row.reason}" if row.kind else row.reason
            tqdm.write(f"{engine}: program {row.seed}: {row.status}: {said}\n{row.minimal}")
        told.update(0 if row.minimal else 1)
        if time.monotonic() - saved > _SAVE_SECONDS:
            store.save()
            saved = time.monotonic()
    told.close()
    store.save()
    return len(faults)


def rows(engine: str, seeds: Sequence[int], bounds: Bounds) -> Iterator[Row]:
    """A row for each seed, as they come; a wrong one comes again once it has been minimised.

    Parameters
    ----------
    engine
        A backend's name, or one of torch's own controls.
    seeds
        Of the programs.
    bounds
        Of each process; its seconds are those of one program.
    """
    if not seeds:
        return
    words = ["--engine", engine, "--here", *map(str, seeds)]
    alone = {"OMP_NUM_THREADS": "1"}
    for seed, said in workers.rows("random_programs", words, bounds, environment=alone):
        if isinstance(said, workers.Ended):
            yield Row(engine, seed, "timeout" if said.late else "crash", reason=said.reason)
        else:
            yield Row.from_dict(said)


def here(seeds: Sequence[int], engine: str) -> int:
    """Print a row for each seed, in this process."""
    faulthandler.enable()
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)

    def measured(seed: int) -> Iterator[Row]:
        made = program(seed)
        row = check(made, engine)
        yield row
        if row.status == "wrong" and engine not in TORCHS:
            yield replace(row, minimal=minimised(made, row, MINIMISE_SECONDS).text())

    return workers.go_through(seeds, measured)


if __name__ == "__main__":
    workers.command(main)
