"""The backends on a GPU: ``python -m benchmarks.gpu --write docs/gpu-verification.md``.

What is there, the tests of ``tests/gpu``, each backend's in a process of its own, and comparisons
of a few models, one at a time. Rows are stored as they come. The exit status is 1 where a test
fails or a result is wrong. ``--device cpu`` is a dry run: its rows never get to the page.
"""

from __future__ import annotations

import argparse
import datetime as dt
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from benchmarks import packed_rows, workers
from benchmarks.gpu import page
from benchmarks.gpu.run import TEST_SECONDS, Row, backend_of
from benchmarks.workers import Bounds, Ended
from benchmarks.zoo.form import Form, add_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

MODELS = ("BERT-base", "ResNet-18", "MLP", "dict-in-dict-out", "MLP, training step")
FOR_TESTS = 5 / 9
"""Which share of the time the tests may take."""

_START = 60.0
# Each of Inductor's compiling processes counts the libraries that they share.
_MEMORY = 96.0
_QUIET = ("skipped", "not run")
_BAD = ("failed", "wrong", "ended")


class Study:
    """One run, whose rows are in the file as soon as they are known.

    Parameters
    ----------
    path
        Of the rows.
    form, seconds
        Of the run; nothing goes on after so many seconds.
    resume
        Whether what an earlier run left there stays, and what passed is not run again.
    """

    def __init__(self, path: Path, form: Form, seconds: float, *, resume: bool = False) -> None:
        if not resume:
            path.unlink(missing_ok=True)
        self._lock = threading.Lock()
        self._store = packed_rows.PackedRows(path, page.KEYS)
        date = dt.datetime.now(dt.UTC).date().isoformat()
        self._store.head = {"device": form.device, "size": form.size, "date": date}
        self.end = time.monotonic() + seconds

    def rows(self, part: str) -> list[Row]:
        """Those of one part."""
        with self._lock:
            return page.rows(self._store, part)

    def add(self, row: Row) -> None:
        """Keep a row, unless it did not run and has a known result; print it if it ran."""
        with self._lock:
            if row.outcome == "not run" and (row.part, row.name) in self._store:
                return
            self._store.keep(row.to_dict())
        if row.outcome not in _QUIET:
            print(f"{row.part}: {row.name}: {row.outcome} {row.reason}", flush=True)

    def run(self, part: str, words: Sequence[str], seconds: float, until: float) -> None:
        """Add the rows of a process, and one for each item that ended it.

        Parameters
        ----------
        part
            Of the rows that say so.
        words
            For ``benchmarks.gpu.run``.
        seconds
            For one item.
        until
            When no item runs any more.
        """
        bounds = Bounds(seconds, _MEMORY, min(until, self.end))
        done = [row.name for row in self.rows(part) if row.outcome == "passed"]
        with tempfile.TemporaryDirectory() as cache:
            environment = {"DYNAMO_EXT_CACHE": cache}
            try:
                for item, said in workers.rows(
                    "gpu.run", words, bounds, start=_START, done=done, environment=environment
                ):
                    if isinstance(said, Ended):
                        about = f"{words[2]} / {item}" if part == "model" else item
                        self.add(Row(part, about, backend_of(item), "ended", said.reason))
                    else:
                        self.add(Row.from_dict(said))
            except workers.WorkerError as error:
                self.add(Row(part, " ".join(words), "", "ended", str(error)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, store, write; 1 where something is wrong, 2 where there is no such device."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=(__doc__ or "").splitlines()[0]
    )
    add_arguments(parser)
    parser.set_defaults(device="cuda")
    parser.add_argument("--models", type=int, default=len(MODELS), help="how many")
    parser.add_argument("--minutes", type=float, default=9.0, help="for all of it")
    parser.add_argument("--jobs", type=int, default=4, help="backends that are tested at a time")
    parser.add_argument("--resume", action="store_true", help="keep the rows of an earlier run")
    parser.add_argument("--rows", type=Path, help="the file of the rows")
    parser.add_argument("--write", type=Path, help="the page whose measured part is replaced")
    parser.add_argument("--only-write", action="store_true", help="from what is stored")
    given = parser.parse_args(arguments)
    form = Form.of(given)
    dry = form.device == "cpu"
    path = given.rows or (Path("build/gpu-dry-run.jsonl.gz") if dry else packed_rows.own("gpu"))
    if not (given.only_write or dry or torch.cuda.is_available()):
        print("torch sees no CUDA device; --device cpu is a dry run.")
        return 2
    status = 0
    if not given.only_write:
        seconds = 60 * given.minutes
        status = _run(Study(path, form, seconds, resume=given.resume), given)
    if given.write and not dry:
        stored = sorted({*packed_rows.FOLDER.glob("*/gpu.jsonl.gz"), path.resolve()})
        text = given.write.read_text(encoding="utf-8")
        given.write.write_text(page.replaced(text, page.measured(stored)), encoding="utf-8")
    return status


def _run(study: Study, given: argparse.Namespace) -> int:
    form = Form.of(given)
    tests_end = time.monotonic() + (study.end - time.monotonic()) * FOR_TESTS
    study.run("machine", ["here"], TEST_SECONDS, study.end)
    facts = {row.name: row.reason for row in study.rows("machine")}
    there = {row.name for row in study.rows("backend") if row.outcome == "available"}
    named = dict.fromkeys(row.backend for row in study.rows("test"))
    alone = [name for name in named if name in there] if facts.get("GPU") else []
    parts = [*(["--of", name] for name in alone), ["--but", ",".join(alone)]]

    def test(words: list[str]) -> None:
        study.run("test", ["tests", *words], TEST_SECONDS + 15, tests_end)

    with ThreadPoolExecutor(given.jobs) as pool:
        # What a thread raises comes out of the list.
        list(pool.map(test, parts))
    known = {
        row.name.partition(" / ")[0] for row in study.rows("model") if row.outcome != "not run"
    }
    models = [name for name in MODELS[: given.models] if name not in known]
    for index, model in enumerate(models):
        left = (study.end - time.monotonic()) / (len(models) - index)
        words = ["model", "--of", model, *form.words]
        study.run("model", words, left, time.monotonic() + left)
        if not any(row.name.startswith(f"{model} / ") for row in study.rows("model")):
            study.add(Row("model", model, outcome="not run", reason="The time was over."))
    found = [*study.rows("machine"), *study.rows("test"), *study.rows("model")]
    said = Counter(f"{row.part}: {row.outcome}" for row in found if row.outcome)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(said.items())))
    return int(any(row.outcome in _BAD for row in found))


if __name__ == "__main__":
    workers.command(main)
