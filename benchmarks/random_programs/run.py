"""Programs under one engine, in this process, and from another that survives it.

``python -m benchmarks.random_programs.run --engine onnxrt`` reads seeds from its standard input
and prints a row for each. ``rows`` starts it, so that a crash or a hang of an engine costs one row.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import logging
import os
import resource
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from benchmarks.bounds import ending
from benchmarks.random_programs.check import Row, check, minimised
from benchmarks.random_programs.generate import program
from benchmarks.random_programs.program import TORCHS

START_SECONDS = 180.0
"""More for a process's first program: it loads torch and the engine before."""

MINIMISE_SECONDS = 60.0

_PREFIX = "@row "
_MOST_KIB = 3 << 20
"""Resident memory beyond which a fresh process goes on: engines keep some of what they compile."""


def rows(engine: str, seeds: Sequence[int], seconds: float) -> Iterator[Row]:
    """A row for each seed, as they come; a wrong one comes again once it has been minimised.

    Parameters
    ----------
    engine
        A backend's name, or one of torch's own controls.
    seeds
        Of the programs.
    seconds
        That one program may take.
    """
    left = list(seeds)
    while left:
        with _process(engine, left) as process:
            given = START_SECONDS
            buffered = b""
            ended = ""
            while not ended:
                text = _read(process.stdout, seconds + given)
                if not text:
                    late = text is None
                    ended = f"No result after {seconds:.0f} s." if late else "The process ended."
                    break
                *lines, buffered = (buffered + text).split(b"\n")
                for row in _parsed(lines):
                    given = MINIMISE_SECONDS if row.status == "wrong" else 0.0
                    if left and row.seed == left[0]:
                        left.pop(0)
                    yield row
            status = "timeout" if text is None else "crash"
            if text is not None and (code := process.wait()):
                ended = ending(code, "")
            elif text is not None:
                continue
        if left:
            yield Row(engine, left.pop(0), status, reason=ended)


def _read(stream: IO[bytes] | None, seconds: float) -> bytes | None:
    """What comes next: nothing at the end, and ``None`` where nothing comes in time."""
    if stream is None or not select.select([stream], [], [], seconds)[0]:
        return None
    return os.read(stream.fileno(), 1 << 16)


def _parsed(lines: Sequence[bytes]) -> Iterator[Row]:
    for line in lines:
        # Engines print things of their own, and not always whole lines.
        _, found, record = line.decode(errors="replace").partition(_PREFIX)
        if found:
            yield Row.from_dict(json.loads(record))


@contextlib.contextmanager
def _process(engine: str, seeds: Sequence[int]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "benchmarks.random_programs.run", "--engine", engine]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(  # noqa: S603 - this interpreter, on our own module
        [*command, "--seeds", *map(str, seeds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each seed; stop early where the process has grown."""
    import torch

    parser = argparse.ArgumentParser(description="Programs under one engine, in this process.")
    parser.add_argument("--engine", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    given = parser.parse_args(arguments)
    faulthandler.enable()
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    for seed in given.seeds:
        made = program(seed)
        row = check(made, given.engine)
        _tell(row)
        if row.status == "wrong" and given.engine not in TORCHS:
            _tell(replace(row, minimal=minimised(made, row, MINIMISE_SECONDS / 2).text()))
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > _MOST_KIB:
            return 0
    return 0


def _tell(row: Row) -> None:
    print(f"\n{_PREFIX}{json.dumps(row.to_dict())}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
