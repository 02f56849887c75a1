"""Tests that need a CUDA device; without one they are all skipped, for that one reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from dynamo_ext.backends import journal as journals
from dynamo_ext.backends import registry
from tests.backends.conftest import _fresh

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["_fresh"]

REASON = "torch sees no CUDA device"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    here = pytest.mark.skip(reason=REASON)
    folder: Path
    for item in items:
        folder = item.path.parent
        if folder.name == "gpu":
            item.add_marker(here)


class Recorded:
    """A compiled function, and what its backend told."""

    def __init__(self, name: str, function: Any, options: Any, **kwargs: Any) -> None:
        self.journal = journals.Journal("g0")
        compiler = registry.compiler(name, options, strict=True)

        def journalled(graph: Any, inputs: Any) -> Any:
            with journals.active(self.journal):
                return compiler(graph, inputs)

        self.call = torch.compile(function, backend=journalled, **kwargs)

    @property
    def stages(self) -> list[str]:
        return [fallback.stage for fallback in self.journal.fallbacks.values()]

    @property
    def failures(self) -> list[str]:
        """What an engine was given and did not do, or not rightly."""
        failed = {"lower", "verify", "run"}
        return [each.message for each in self.journal.fallbacks.values() if each.stage in failed]

    @property
    def engines(self) -> set[str]:
        return {partition.engine for partition in self.journal.partitions.values()}


@pytest.fixture
def compiled() -> Any:
    """Compile with a backend that must be here, else the test is skipped with its reason."""

    def compile_with(name: str, function: Any, options: Any = None, **kwargs: Any) -> Recorded:
        answer = registry.probe(registry.get(name))
        if not answer.available:
            pytest.skip(f"{name}: {answer.reason}")
        if answer.device == "cpu":
            pytest.skip(f"{name} {answer.version} has no CUDA here")
        return Recorded(name, function, options, **kwargs)

    return compile_with
