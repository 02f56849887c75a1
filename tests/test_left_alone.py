"""Importing the package and running cells leaves the process, and torch in it, as it was."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.backends import BACKENDS
from dynamo_ext.backends import registry

if TYPE_CHECKING:
    from pathlib import Path


TOGETHER = (
    ("eager", "aot_eager", "ts", "ofi"),
    ("onnxrt", "openvino", "onnx2tf"),
    ("tvm", "xla"),
    # What torch itself changes where Inductor compiles is more.
    ("inductor",),
    ("auto",),
)
"""One process looks after each backend of a row."""


def test_every_backend_is_in_a_row() -> None:
    assert sorted(itertools.chain(*TOGETHER)) == sorted((*BACKENDS, "auto"))


@pytest.mark.parametrize("backends", TOGETHER, ids="-".join)
def test_the_process_is_as_it_was(backends: tuple[str, ...], tmp_path: Path) -> None:
    here = [name for name in backends if registry.probe(registry.get(name)).available]
    if not here:
        pytest.skip("none of them can run here")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.left_alone", *here],
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
