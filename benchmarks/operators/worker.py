"""Cases under one engine, in this process: ``python -m benchmarks.operators.worker``."""

from __future__ import annotations

import argparse
import faulthandler
import sys

import torch

from benchmarks import workers
from benchmarks.operators import check, samples
from dynamo_ext.backends import registry
from dynamo_ext.backends.options import resolve


def main() -> int:
    """Run the cases that are not done yet; 0 where none is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--operators", default="*")
    parser.add_argument("--dtypes", default=",".join(samples.DTYPES))
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--subset", type=int, default=0)
    given = parser.parse_args()
    faulthandler.enable()
    torch.set_num_threads(1)
    engine = registry.get(given.engine)
    known = {spec.name for spec in engine.options}
    wanted = {"verify": False, "min_partition": 1}
    options = resolve(engine.name, engine.options, {k: v for k, v in wanted.items() if k in known})
    cases = samples.cases(
        operators=given.operators,
        dtypes=given.dtypes.split(","),
        samples=given.samples,
        subset=given.subset,
    )
    return workers.go_through(
        cases, lambda case: [check.check(case, engine, options)], lambda case: case.key
    )


if __name__ == "__main__":
    sys.exit(main())
