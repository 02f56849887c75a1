"""Importing the package and running cells leaves the process, and torch in it, as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.backends import BACKENDS
from tests.needs import needs_backend

if TYPE_CHECKING:
    from pathlib import Path


TOGETHER = ("eager", "aot_eager", "ts", "ofi")
"""Backends that every torch has and that compile in no time: one process looks after each."""
OTHERS = [(name,) for name in (*BACKENDS, "auto") if name not in TOGETHER]


@pytest.mark.parametrize("backends", [TOGETHER, *OTHERS], ids="-".join)
def test_the_process_is_as_it_was(backends: tuple[str, ...], tmp_path: Path) -> None:
    for backend in backends:
        needs_backend(backend)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.left_alone", *backends],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            # What another test has compiled would leave parts of Inductor out of this one.
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        },
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
