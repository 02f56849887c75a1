"""Cases under one engine, in this process: ``python -m benchmarks.operators.worker`` prints lines.

``benchmarks.operators`` starts it, so that a crash or a hang of an engine costs one case.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from benchmarks.operators import check, samples
from dynamo_ext.backends import registry
from dynamo_ext.backends.options import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "@case "
"""Starts each line of standard output that is ours; engines print things of their own."""

RENEW = 75
"""The exit status that asks for a fresh process, for the rest of the cases."""

_MOST_KIB = 4 << 20
"""Resident memory beyond which a fresh process goes on: engines keep some of what they compile."""


def say(word: str, value: object) -> None:
    """A line for the process that reads us: ``start``, ``row`` or ``end``."""
    print(f"{PREFIX}{json.dumps([word, value])}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases that are not done yet; 0 where none is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--operators", default="*")
    parser.add_argument("--dtypes", default=",".join(samples.DTYPES))
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--subset", type=int, default=0)
    parser.add_argument("--done", type=Path, help="a file of keys, one a line, to leave out")
    given = parser.parse_args(arguments)
    faulthandler.enable()
    torch.set_num_threads(1)
    engine = registry.get(given.engine)
    known = {spec.name for spec in engine.options}
    wanted = {"verify": False, "min_partition": 1}
    options = resolve(engine.name, engine.options, {k: v for k, v in wanted.items() if k in known})
    done = set(given.done.read_text().splitlines()) if given.done else set()
    for case in samples.cases(
        operators=given.operators,
        dtypes=given.dtypes.split(","),
        samples=given.samples,
        subset=given.subset,
    ):
        if case.key in done:
            continue
        say("start", [case.operator, case.dtype, case.sample])
        say("row", check.check(case, engine, options).to_dict())
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > _MOST_KIB:
            return RENEW
    say("end", given.engine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
