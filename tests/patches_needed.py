"""Which patches of torch's tracing are still needed: ``make patches-needed TORCH=2.14.1``.

For each patch, tests run without it up to the first that fails. As a plugin of pytest
(``-p tests.patches_needed``), this file takes the patch out that ``LEFT_OUT`` names.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import torch

from dynamo_ext.capture.torch_private import patches as _all_patches
from dynamo_ext.capture.torch_private.patches import registry

if TYPE_CHECKING:
    from collections.abc import Iterator

LEFT_OUT = "DYNAMO_EXT_TEST_WITHOUT_PATCH"
TESTS = (
    ("tests/capture/torch_private/patches",),
    ("tests/capture", "tests/magics/test_differential.py", "tests/magics/test_cell_source.py"),
)
"""The tests of the patches, and where these pass without one, all of capture and the corpus."""
SECONDS = 600.0
"""For either: a loop that is unrolled may not end."""


def _names() -> Iterator[tuple[str, Any, int | None]]:
    """Each function of ours by its name, with what holds it: its place, or a table's number."""
    for place, (_, attribute, held) in enumerate(registry._patches):
        if attribute != "dispatch_table":
            function = getattr(held, "__func__", held)
            yield _name(inspect.getclosurevars(function).nonlocals["ours"]), place, None
    for table in registry._tables.values():
        for number, traced in enumerate(table):
            if getattr(getattr(traced, "func", None), "__module__", "").startswith(
                _all_patches.__name__
            ):
                yield _name(traced.func), table, number


def _name(function: Any) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


def pytest_configure() -> None:
    """Take one patch out."""
    left_out = [found for found in _names() if found[0] == os.environ[LEFT_OUT]]
    assert left_out
    places = set()
    for _, holder, number in left_out:
        if number is None:
            places.add(holder)
        else:
            holder[number] = holder[number].args[0]
    registry._patches[:] = [
        each for place, each in enumerate(registry._patches) if place not in places
    ]


def main() -> int:
    """Print what was found for each patch; 1 where one is not needed."""
    needless = []
    for name in sorted({name for name, *_ in _names()}):
        failed = ""
        for tests in TESTS:
            command = [
                sys.executable, "-m", "pytest", "-p", "tests.patches_needed", "-xq", *tests,
                "-m", "not sweep and not alone",
            ]  # fmt: skip
            settings = os.environ | {LEFT_OUT: name}
            try:
                ran = subprocess.run(
                    command,
                    check=False,
                    capture_output=True,
                    text=True,
                    env=settings,
                    timeout=SECONDS,
                )
            except subprocess.TimeoutExpired:
                failed = "its tests do not end"
                break
            if ran.returncode != 0:
                lines = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
                failed = lines[0] if lines else f"pytest ended with {ran.returncode}"
                break
        needless += [] if failed else [name]
        sys.stdout.write(f"{name}: {failed or 'no test fails without it'}\n")
        sys.stdout.flush()
    sys.stdout.write(f"torch {torch.__version__}: not needed: {', '.join(needless) or 'none'}\n")
    return bool(needless)


if __name__ == "__main__":
    sys.exit(main())
