"""One model's row from a process of its own, so that a crash of an engine costs one row."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from benchmarks.bounds import ending, watch
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import add_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.bounds import Bounds

PREFIX = "@row "
"""Starts the line of standard output that is the row; engines print things of their own."""

_ROOT = Path(__file__).parent.parent


def answer(module: str, arguments: Sequence[str], bounds: Bounds) -> dict[str, Any] | str:
    """What ``python -m benchmarks.<module>`` prints as its row, or why there is none.

    Parameters
    ----------
    module
        Of this package.
    arguments
        For its command line.
    bounds
        Where it leaves them, it is stopped.
    """
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "DYNAMO_EXT_UNRECORDED": "1"}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, on our own module
            command,
            stdout=output,
            stderr=errors,
            env=environment,
            cwd=_ROOT,
            start_new_session=True,
        )
        *_, stopped = watch(process, bounds)
        said = [_lines(file) for file in (output, errors)]
    for line in said[0]:
        if line.startswith(PREFIX):
            found: dict[str, Any] = json.loads(line.removeprefix(PREFIX))
            return found
    return stopped or ending(process.returncode, (said[1] or [""])[-1])


def _lines(file: IO[bytes]) -> list[str]:
    file.seek(0)
    return file.read().decode(errors="replace").strip().splitlines()


def parser(
    about: str, budget: float | None, models: Iterable[str] = MODELS
) -> argparse.ArgumentParser:
    """The arguments that every module has that measures one model.

    Parameters
    ----------
    about
        One line for the help.
    budget
        Seconds to time for, unless the command line says else; None where nothing is timed so.
    models
        What it can measure, by name.
    """
    made = argparse.ArgumentParser(description=about)
    made.add_argument("--model", choices=list(models), required=True)
    add_arguments(made)
    if budget is not None:
        made.add_argument("--budget", type=float, default=budget)
    return made


def tell(row: dict[str, Any]) -> None:
    """Print a row for ``answer`` to find."""
    print(PREFIX + json.dumps(row), flush=True)
