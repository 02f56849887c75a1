"""Torch's own operator samples through every lowering engine: ``python -m benchmarks.operators``.

Each engine runs in processes of its own; rows go to ``build/operators`` as they come, so that
``--resume`` goes on where a run was interrupted. The exit status is 1 where any result is wrong,
a process died or a case did not come back.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from benchmarks import workers
from benchmarks.operators import table
from benchmarks.operators.check import CALLS, check
from benchmarks.operators.row import Row, Verdict
from benchmarks.operators.samples import DTYPES, cases
from benchmarks.workers import Bounds
from dynamo_ext.backends import registry
from dynamo_ext.backends.options import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

_STATE = Path("build/operators")

_NOT_SWEPT = {
    "eager": "It is eager.",
    "tvm_meta_schedule": "It tunes each operation for seconds, on `tvm`'s translation.",
}


def here(given: argparse.Namespace) -> int:
    """Run the cases of an engine that are not done yet, in this process; 0 where none is left."""
    faulthandler.enable()
    torch.set_num_threads(1)
    engine = registry.get(given.here)
    known = {spec.name for spec in engine.options}
    wanted = {"verify": False, "min_partition": 1}
    options = resolve(engine.name, engine.options, {k: v for k, v in wanted.items() if k in known})
    found = cases(
        operators=given.operators,
        dtypes=given.dtypes.split(","),
        samples=given.samples,
        subset=given.subset,
    )
    return workers.go_through(
        found, lambda case: [check(case, engine, options)], lambda case: case.key
    )


def engines(names: Sequence[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
    """Engines that can run here and their versions; and the others, with the reason.

    Parameters
    ----------
    names
        Those asked for; empty for every backend of ours that takes partitions.
    """
    versions: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for name in names or registry.names():
        if not names and name in _NOT_SWEPT:
            continue
        try:
            backend = registry.get(name)
        except Exception as error:  # noqa: BLE001 - one that does not load must not stop the others
            skipped[name] = f"{type(error).__name__}: {error}"
            continue
        if backend.whole_graph:
            if names:
                skipped[name] = "It takes graphs whole."
            continue
        availability = registry.probe(backend)
        if availability.available:
            versions[name] = availability.version
        else:
            skipped[name] = availability.reason
    return versions, skipped


def sweep(
    engine: str, arguments: Sequence[str], *, state: Path, resume: bool, timeout: float
) -> list[Row]:
    """All rows of one engine; those of an interrupted run are taken over if asked for."""
    file = state / f"{engine}.jsonl"
    found = _rows_in(file) if resume else []
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(row.to_dict()) + "\n" for row in found)
        told = workers.rows(
            "operators",
            [f"--here={engine}", *arguments],
            Bounds(timeout),
            done=[row.key for row in found],
            # One thread each: the tensors are tiny, and engines would fight over the cores.
            environment={"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
        )
        for key, said in told:
            if isinstance(said, workers.Ended):
                row = _fault(engine, key, said)
            else:
                row = Row.from_dict(said)
            out.write(json.dumps(row.to_dict()) + "\n")
            out.flush()
            found.append(row)
            if row.fault:
                where = f"{engine}: {row.operator} {row.dtype} {row.sample}"
                print(f"{where}: {row.verdict}: {row.reason} {row.blame}", flush=True)
    return found


def _fault(engine: str, key: str, end: workers.Ended) -> Row:
    operator, dtype, sample = key.rsplit(" ", 2)
    verdict: Verdict = "timeout" if end.late else "crash"
    return Row(engine, operator, dtype, int(sample), verdict, end.reason)


def _rows_in(file: Path) -> list[Row]:
    if not file.exists():
        return []
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(Row.from_dict(json.loads(line)))
        except ValueError:
            continue  # the line that was being written when the run was interrupted
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sweep; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__)
    parser.add_argument("--engines", default="", help="names, by commas; default all available")
    parser.add_argument("--operators", default="*", help="a shell pattern for operator names")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--samples", type=int, default=2, help="for each operator and dtype")
    parser.add_argument("--subset", type=int, default=0, help="so many operators, by a hash")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one sample")
    parser.add_argument("--jobs", type=int, default=2, help="engines at a time")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    parser.add_argument("--report", action="store_true", help="run nothing: report what is kept")
    parser.add_argument("--state", type=Path, default=_STATE, help="where rows are kept meanwhile")
    parser.add_argument("--write", type=Path, help="the page, as Markdown")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.here:
        return here(given)
    versions, skipped = engines([name for name in given.engines.split(",") if name])
    passed = [f"--{name}={getattr(given, name)}" for name in _PASSED]

    def one(engine: str) -> list[Row]:
        if given.report:
            return _rows_in(given.state / f"{engine}.jsonl")
        try:
            return sweep(
                engine, passed, state=given.state, resume=given.resume, timeout=given.timeout
            )
        except workers.WorkerError as error:
            print(f"{engine}: {error}", flush=True)
            skipped[engine] = str(error)
            return []

    with ThreadPoolExecutor(given.jobs) as pool:
        rows = list(itertools.chain.from_iterable(pool.map(one, versions)))
    having = {row.engine for row in rows}
    ran = {name: version for name, version in versions.items() if name in having}
    for name in versions:
        if name not in having:
            skipped.setdefault(name, "No samples were run.")
    page = table.page(
        rows,
        versions=ran,
        skipped=skipped,
        torch_version=torch.__version__,
        samples=given.samples,
        calls=CALLS,
    )
    if given.write:
        given.write.write_text(page, encoding="utf-8")
    faults = [row for row in rows if row.fault]
    print(f"{len(rows)} samples, {len(faults)} faults, {len(ran)} engines.")
    return 1 if faults or len(ran) < len(versions) else 0


_PASSED = ("operators", "dtypes", "samples", "subset")


if __name__ == "__main__":
    sys.exit(main())
