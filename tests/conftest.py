"""What every test shares: no network, and a notebook for those that ask for one."""

from __future__ import annotations

import gc
import inspect
import logging
import os
import tempfile
import types
from pathlib import Path
from typing import Any

import pytest

from tests.frozen_objects import older_objects_frozen

# Before anything imports transformers or jupyter: neither may look for updates or models.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
# Tests end processes, and are ended: that must not leave an engine out of anybody's next run.
os.environ.setdefault("DYNAMO_EXT_UNRECORDED", "1")
# No test depends on how fast the machine is; those of the limit set one.
os.environ.setdefault("DYNAMO_EXT_FIRST_RUN", "none")
# Each trace makes some ten thousand objects, and collecting goes through a worker's gigabytes.
gc.set_threshold(20_000, 20, 50)
# pytest listens to every logger, and torch writes out bytecode, guards and tracebacks at each
# compile for this one if anything listens: that takes most of what a test of a small cell takes.
logging.getLogger("torch.__trace").addHandler = lambda _: None  # type: ignore[method-assign]
_modules_of_files = inspect.getmodule


def _module_of(what: Any, _filename: str | None = None) -> types.ModuleType | None:
    """Look through no modules for what is of a cell or generated: no module has such a file.

    IPython asks for each frame of a traceback, several times, and some 4,000 modules are loaded.
    """
    code = what.f_code if isinstance(what, types.FrameType) else what
    if isinstance(code, types.CodeType) and (_filename or code.co_filename).startswith("<"):
        return None
    return _modules_of_files(what, _filename)


inspect.getmodule = _module_of  # type: ignore[assignment]

ALONE = (
    "auto/test_autotuned_graph.py",
    "auto/test_backend.py",
    "measure/test_compare.py",
    "timing/test_race.py",
)
"""Tests that go by the clock."""

SWEEPS = (
    "backends/engines/test_engines_coexist.py",
    "backends/test_fork_safety.py",
    "benchmarks/test_operators.py",
    "benchmarks/test_zoo.py",
    "magics/test_memory.py",
    "notebooks/",
    "test_left_alone.py",
)
"""Every engine on every model, operator or notebook, and whole studies."""


def pytest_configure(config: pytest.Config) -> None:
    """One cache folder for a run, which all its workers and processes share."""
    if "DYNAMO_EXT_CACHE" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="dynamo_ext-cache-")
        config.add_cleanup(folder.cleanup)
        os.environ["DYNAMO_EXT_CACHE"] = folder.name


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file whose tests a half of the suite leaves out: that takes longer than some of it."""
    named = [Path(each.partition("::")[0]).resolve() for each in config.args]
    if not collection_path.name.startswith("test_") or collection_path in named:
        return None
    name = collection_path.relative_to(Path(__file__).parent).as_posix()
    left_out = False
    if config.option.markexpr == "not sweep and alone":
        left_out = not name.startswith(ALONE)
    elif config.option.markexpr == "sweep" and not name.startswith(SWEEPS):
        left_out = "mark.sweep" not in collection_path.read_text("utf-8")
    return left_out or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        name = item.path.relative_to(here).as_posix()
        if name.startswith(ALONE):
            item.add_marker(pytest.mark.alone)
        if name.startswith(SWEEPS):
            item.add_marker(pytest.mark.sweep)
            # A whole notebook, or an engine on ten models, of which a slow machine takes long.
            item.add_marker(pytest.mark.timeout(800))


@pytest.fixture(name="older_objects_frozen")
def _older_objects_frozen():
    with older_objects_frozen():
        yield


@pytest.fixture
def cells(request):
    """A notebook in which the test file's ``NOTEBOOK`` has run, after ``import torch``."""
    from tests.capture.live import live

    with live(getattr(request.module, "NOTEBOOK", "x = torch.arange(3.)")) as found:
        yield found


@pytest.fixture
def compiles():
    """Every compile that Dynamo starts meanwhile, by its id."""
    from tests.capture.live import counting_compiles

    with counting_compiles() as started:
        yield started
