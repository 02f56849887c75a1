"""The project's measurements, one after another, each in a process of its own.

Every part keeps its rows, so that a run that was interrupted goes on where it stopped, and writes
its page of the documentation at the end. Rows lie in ``benchmarks/results``, in a folder for each
machine. A wrong result, and nothing else, makes it fail: times never do. With ``--quick``, tiny
models, nothing is written, and it takes a few minutes. With ``--full`` or ``--device cuda`` rows
and pages have names of their own, as ``auto-cuda-full``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.zoo.form import Form, add_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCS = Path("docs")
PAGES = {
    "capture": "capture.md",
    "models": "models.md",
    "auto": "auto.md",
    "precision": "precision.md",
    "call_cost": "call-cost.md",
    "operators": "operators.md",
    "random_programs": "random-programs.md",
    "architectures": "architectures.md",
    "libraries": "libraries.md",
    "first_run": "first-run.md",
    "batch_sizes": "batch-sizes.md",
    "start": "start.md",
    "notebooks": "notebooks-first-run.md",
    "fairness": "fairness.md",
}
"""Each part, and the page that it writes."""

QUICK = ("capture", "models", "auto")
"""The parts that are worth running on tiny models."""

ZOO = ("capture", "models", "auto")
"""The parts over all models, which also run on another device and at larger sizes."""

FEW = ("MLP", "dict-in-dict-out", "BERT-base")


_BRIEF = {"capture": ["--budget", "1"], "auto": ["--budget", "2", "--race", "1"]}


def command(part: str, given: argparse.Namespace, folder: Path) -> list[str]:
    """How a part is run.

    Parameters
    ----------
    part
        One of ``PAGES``.
    given
        ``quick``, ``full``, ``device``, ``models``, ``backends``.
    folder
        Where the rows of a quick run go.
    """
    form = Form.of(given)
    words = [sys.executable, "-m", f"benchmarks.{part}", *form.words]
    if form.tiny:
        words += ["--rows", str(folder / f"{part}.jsonl.gz"), *_BRIEF.get(part, [])]
    else:
        page = DOCS / PAGES[part]
        words += ["--write", str(page.with_stem(f"{page.stem}{form.suffix}"))]
        words += ["--resume"] if part == "operators" else []
    models = given.models or (FEW if given.quick else ())
    if models and part in ZOO:
        words += ["--models", *models]
    if given.backends and part == "models":
        words += ["--backends", *given.backends]
    if given.backends and part == "auto":
        words += ["--backends", ",".join(given.backends)]
    return words


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; 1 where one of them found a wrong result or did not run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PAGES)}")
    add_arguments(parser)
    parser.add_argument("--models", nargs="+", metavar="NAME")
    parser.add_argument("--backends", nargs="+", metavar="NAME")
    given = parser.parse_args(arguments)
    unknown = set(given.parts) - set(PAGES)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PAGES)}")
    form = Form.of(given)
    usual = ZOO if form.special else tuple(PAGES)
    if set(given.parts) - set(usual):
        parser.error(f"only {', '.join(ZOO)} run on another device or at larger sizes")
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for part in given.parts or (QUICK if form.tiny else usual):
            print(f"== {part}", flush=True)
            started = time.monotonic()
            words = command(part, given, Path(folder))
            done = subprocess.run(words, check=False)  # noqa: S603 - a module of our own
            print(f"== {part}: {time.monotonic() - started:.0f} s", flush=True)
            if done.returncode:
                failed.append(part)
    if failed:
        print(f"Failed: {', '.join(failed)}.")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
