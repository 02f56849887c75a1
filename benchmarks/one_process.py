"""One model's row from a process of its own, so that a crash of an engine costs one row."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.zoo import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PREFIX = "@row "
"""Starts the line of standard output that is the row; engines print things of their own."""

_ROOT = Path(__file__).parent.parent


def answer(module: str, arguments: Sequence[str], seconds: float) -> dict[str, Any] | str:
    """What ``python -m benchmarks.<module>`` prints as its row, or why there is none.

    Parameters
    ----------
    module
        Of this package.
    arguments
        For its command line.
    seconds
        After which it is stopped.
    """
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, on our own module
            command, env=environment, cwd=_ROOT, timeout=seconds, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        return f"It had no result after {seconds:.0f} s."
    for line in done.stdout.decode(errors="replace").splitlines():
        if line.startswith(PREFIX):
            found: dict[str, Any] = json.loads(line.removeprefix(PREFIX))
            return found
    said = done.stderr.decode(errors="replace").strip().splitlines() or [""]
    return f"The process ended with code {done.returncode}: {said[-1]}"


def parser(about: str, budget: float, models: Iterable[str] = MODELS) -> argparse.ArgumentParser:
    """The arguments that every module has that measures one model.

    Parameters
    ----------
    about
        One line for the help.
    budget
        Seconds to time for, unless the command line says else.
    models
        What it can measure, by name.
    """
    made = argparse.ArgumentParser(description=about)
    made.add_argument("--model", choices=list(models), required=True)
    made.add_argument("--quick", action="store_true")
    made.add_argument("--budget", type=float, default=budget)
    return made


def tell(row: dict[str, Any]) -> None:
    """Print a row for ``answer`` to find."""
    print(PREFIX + json.dumps(row), flush=True)
