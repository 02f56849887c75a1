"""Models under a backend in processes of their own, within bounds of time and memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bounds import Bounds, ending, watch
from benchmarks.models.row import Row
from benchmarks.models.run import parse

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from benchmarks.zoo.form import Form

_ROOT = Path(__file__).parent.parent


def rows(
    models: Sequence[str], backend: str, dtype: str, *, form: Form, bounds: Bounds
) -> Iterator[Row]:
    """A row for each model, those of one process together.

    A process that crashes, hangs or grows too large costs the model that it was at: the rest go
    on in another one.

    Parameters
    ----------
    models
        Names of the zoo.
    backend, dtype, form
        As ``models.run.measure`` takes them.
    bounds
        Of each process.
    """
    left = list(models)
    while left:
        running = _run(left, backend, dtype, form=form, bounds=bounds)
        while True:
            try:
                row = next(running)
            except StopIteration as end:
                reason = end.value
                break
            left.remove(row.model)
            yield row
        if left:
            yield Row(left.pop(0), backend, dtype, form.tiny, "failed", reason)


def _run(
    models: Sequence[str], backend: str, dtype: str, *, form: Form, bounds: Bounds
) -> Generator[Row, None, str]:
    """The rows that a process prints, as they come, and how it ended where it did not end well."""
    command = [sys.executable, "-m", "benchmarks.models.run", "--backend", backend]
    command += ["--dtypes", dtype, *form.words, "--models", *models]
    with tempfile.TemporaryDirectory() as folder:
        # Compile seconds are those of a first time.
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(Path(folder, "inductor"))} if not form.tiny else {}
        lost = {"DYNAMO_EXT_UNRECORDED": "1"}
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", **lost, **caches}
        output, errors = Path(folder, "output"), Path(folder, "errors")
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(  # noqa: S603 - this interpreter, on our own module
                command, stdout=out, stderr=err, env=environment, cwd=_ROOT, start_new_session=True
            )
            known: set[str] = set()
            stopped: str | None = None
            limits = replace(bounds, seconds=bounds.seconds * len(models))
            with contextlib.closing(watch(process, limits)) as watched:
                for state in watched:
                    stopped = state
                    # Only whole lines: the process may be at the middle of one.
                    text = output.read_text(errors="replace").rpartition("\n")[0]
                    for key, row in parse(text).items():
                        if key not in known:
                            known.add(key)
                            yield row
        said = errors.read_text(errors="replace").strip().splitlines() or [""]
    return stopped or ending(process.returncode, said[-1])
