"""Programs under one engine, in this process, and in others that may crash or hang."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from benchmarks import workers
from benchmarks.random_programs.check import Row, check, minimised
from benchmarks.random_programs.generate import program
from benchmarks.random_programs.program import TORCHS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.workers import Bounds

MINIMISE_SECONDS = 30.0


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
    words = ["--engine", engine, "--seeds", *map(str, seeds)]
    alone = {"OMP_NUM_THREADS": "1"}
    for seed, said in workers.rows("random_programs.run", words, bounds, environment=alone):
        if isinstance(said, workers.Ended):
            yield Row(engine, seed, "timeout" if said.late else "crash", reason=said.reason)
        else:
            yield Row.from_dict(said)


def main() -> int:
    """Print a row for each seed."""
    parser = argparse.ArgumentParser(description="Programs under one engine, in this process.")
    parser.add_argument("--engine", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    given = parser.parse_args()
    faulthandler.enable()
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)

    def measured(seed: int) -> Iterator[Row]:
        made = program(seed)
        row = check(made, given.engine)
        yield row
        if row.status == "wrong" and given.engine not in TORCHS:
            yield replace(row, minimal=minimised(made, row, MINIMISE_SECONDS).text())

    return workers.go_through(given.seeds, measured)


if __name__ == "__main__":
    sys.exit(main())
