"""A backend that does as told, and one call that compiles under a journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import torch
from torch._dynamo import guards

from dynamo_ext.backends import disk_cache, registry
from dynamo_ext.backends import journal as journals
from dynamo_ext.backends.base import Support
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.options import resolve
from dynamo_ext.backends.support import support_cache
from dynamo_ext.capture.torch_private import patches as _patches  # noqa: F401 - they keep torch's
from dynamo_ext.records.common import Availability, OptionSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Scripted:
    """Lowers to the graph itself, and fails wherever a test wants it to."""

    name = "scripted"
    summary = "For tests"
    extra = ""
    whole_graph = False
    options = (
        OptionSpec("freeze", default=True, help=""),
        OptionSpec("verify", default=True, help=""),
    )

    def __init__(self, *, dynamic: bool = False) -> None:
        self.dynamic_shapes = dynamic
        self.refuses: tuple[str, ...] = ()
        self.supports_error: BaseException | None = None
        self.lower_error: Callable[[int], BaseException | None] = lambda _: None
        self.run_error: Callable[[int], BaseException | None] = lambda _: None
        self.change: Callable[[list[Any]], list[Any]] = lambda outputs: outputs
        self.lowered: list[torch.fx.GraphModule] = []
        self.inputs: list[int] = []
        self.runs = 0

    def probe(self) -> Availability:
        return Availability(available=True, version="1")

    def supports(self, node: torch.fx.Node) -> Support:
        if self.supports_error is not None:
            raise self.supports_error
        if any(name in str(node.target) for name in self.refuses):
            return Support(supported=False, reason="It was told to refuse this.")
        return Support(supported=True)

    def lower(self, graph: torch.fx.GraphModule, example_inputs: Any, options: Any) -> Any:
        del options
        error = self.lower_error(len(self.lowered))
        self.lowered.append(graph)
        self.inputs.append(len(example_inputs))
        if error is not None:
            raise error

        def run(*args: Any) -> list[Any]:
            self.runs += 1
            failure = self.run_error(self.runs)
            if failure is not None:
                raise failure
            with torch.no_grad():
                return self.change(list(graph(*args)))

        return run


class Harness:
    """Compiles with a backend, keeps its journal."""

    def __init__(self) -> None:
        self.journal = journals.Journal("g0")

    def compile(self, fn: Any, backend: Any, options: Any = None, **kwargs: Any) -> Any:
        """``torch.compile`` with a backend object or a compiler, journalled here."""
        compiler = backend
        if not isinstance(backend, Compiler):
            settled = resolve(backend.name, backend.options, None)
            compiler = Compiler(backend, {**settled, **(options or {})})

        def journalled(graph: Any, inputs: Any) -> Any:
            with journals.active(self.journal):
                return compiler(graph, inputs)

        return torch.compile(fn, backend=journalled, **kwargs)

    @property
    def stages(self) -> list[str]:
        return [fallback.stage for fallback in self.journal.fallbacks.values()]

    @property
    def engines(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for partition in self.journal.partitions.values():
            found[partition.engine] = found.get(partition.engine, 0) + partition.operations
        return found


@pytest.fixture(autouse=True, scope="session")
def _guards_are_not_timed() -> Iterator[None]:
    """A compile takes half as long where torch does not time the frame's guards for a log."""

    def untimed(*_: object) -> float:
        return 0.0

    # A `Mock` would keep its arguments: the user's frame.
    with mock.patch.object(guards, "profile_guard_manager", untimed):
        yield


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def fresh_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Engines know nothing of any operation, and what they answer is forgotten after the test."""
    monkeypatch.setenv(disk_cache.FOLDER, str(tmp_path))
    monkeypatch.setattr(support_cache, "_all", list(support_cache._all))
    for answers in support_cache._all:
        monkeypatch.setitem(vars(answers), "known", {})
        monkeypatch.setattr(answers, "_new", [])


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture
def scripted_dynamic() -> Scripted:
    return Scripted(dynamic=True)


@pytest.fixture(params=["onnxrt", "openvino"])
def engine(request: Any) -> str:
    """An engine that has int8 here."""
    found = registry.probe(registry.get(request.param))
    reason = found.reason or registry.get(request.param).lacks_precision("int8")
    if reason:
        pytest.skip(reason)
    return str(request.param)
