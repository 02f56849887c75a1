"""Programs of engines: found in a later process, by weights of any values, and never damaged."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import dynamo_ext
from dynamo_ext.backends import disk_cache
from dynamo_ext.backends.support import engine_store
from dynamo_ext.backends.support.engine_store import EngineStore
from dynamo_ext.errors import FallbackWarning
from tests.backends.pipeline.test_normalisation import net, scaled
from tests.needs import needs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

needs("onnxruntime")


@pytest.fixture
def store(tmp_path: Path) -> EngineStore:
    disk_cache._warned.clear()
    return EngineStore(tmp_path / "engines")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.FOLDER, str(tmp_path / "cache"))


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partitions that ONNX Runtime's backend converts."""
    from dynamo_ext.backends.engines.onnxrt.backend import OnnxRuntimeBackend

    graphs = []
    compiled = OnnxRuntimeBackend.compiled

    def counted(self: Any, request: Any) -> Any:
        graphs.append(request.graph.code)
        return compiled(self, request)

    monkeypatch.setattr(OnnxRuntimeBackend, "compiled", counted)
    return graphs


@torch.no_grad()
def right(module: Callable[..., torch.Tensor], x: torch.Tensor | None = None) -> bool:
    """Compile as in a process of its own, and compare with eager; whether it came from disk."""
    torch.compiler.reset()
    given = torch.linspace(-1, 1, 12).view(3, 4) if x is None else x
    compiled = dynamo_ext.optimize("onnxrt")(module)
    torch.testing.assert_close(compiled(given), module(given))
    report = compiled.report()
    assert report.fallbacks == ()
    [part] = report.graphs[0].partitions
    return part.from_disk


def test_other_weights_of_the_same_architecture_are_not_converted_again(
    converted: list[str],
) -> None:
    assert [right(net(seed)) for seed in range(3)] == [False, True, True]
    assert len(converted) == 1
    [(_, size, _)] = EngineStore().files()
    assert size < 20_000


@pytest.mark.parametrize(
    "other",
    [
        lambda: right(net(0, width=9)),
        lambda: right(net(0), torch.ones(5, 4)),
        lambda: right(scaled(1.5), torch.ones(3, 4, dtype=torch.float64)),
        lambda: right(net(0, norm=nn.Identity)),
        lambda: right(scaled(2.5)),
    ],
    ids=["width", "batch", "dtype", "operations", "number"],
)
def test_other_graphs_have_programs_of_their_own(
    converted: list[str], other: Callable[[], bool]
) -> None:
    right(net(0))
    right(scaled(1.5))
    before = len(converted)
    other()
    assert len(converted) > before


def test_what_was_computed_of_weights_is_not_kept(converted: list[str]) -> None:
    for seed in range(2):
        right(normed(seed, nn.ConvTranspose2d(3, 4, 3)), torch.randn(2, 3, 9, 9))
    assert len(converted) == 2
    assert EngineStore().files() == []


def test_convolutions_keep_their_norms_apart(converted: list[str]) -> None:
    for seed in range(2):
        right(normed(seed, nn.Conv2d(3, 4, 3)), torch.randn(2, 3, 9, 9))
    assert len(converted) == 1


def normed(seed: int, convolution: nn.Module) -> nn.Module:
    torch.manual_seed(seed)
    norm = nn.BatchNorm2d(4)
    norm.running_mean = torch.randn(4)
    for parameter in convolution.parameters():
        nn.init.normal_(parameter)
    return nn.Sequential(convolution, norm, nn.ReLU()).eval()


def test_edited_weights_are_those_of_the_next_process(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, torch, dynamo_ext\n"
        "torch.manual_seed(0)\n"
        "w = torch.nn.Linear(4, 4).requires_grad_(False)\n"
        "torch.nn.init.constant_(w.weight, float(sys.argv[1]))\n"
        "f = lambda x: torch.tanh(torch.sin(w(x)) * 2)\n"
        "compiled = dynamo_ext.optimize('onnxrt')(f)\n"
        "with torch.no_grad():\n"
        "    found = compiled(torch.ones(2, 4))\n"
        "assert not compiled.report().fallbacks\n"
        "torch.testing.assert_close(found, f(torch.ones(2, 4)))\n"
        "print(found[0, 0].item())\n"
    )
    said = [
        subprocess.run(
            [sys.executable, program, weight], check=True, capture_output=True, text=True
        ).stdout
        for weight in ("0.1", "0.1", "0.2")
    ]
    assert said[0] == said[1] != said[2]
    assert len(EngineStore().files()) == 1


def test_a_damaged_program_is_converted_again(converted: list[str]) -> None:
    right(net(0))
    [path] = EngineStore().folder.iterdir()
    text = path.read_bytes()
    for damaged in (text[:-1], text[:-1] + bytes([text[-1] ^ 1]), b"", text[:20]):
        EngineStore().put(path.name, damaged)
        disk_cache._warned.clear()
        with pytest.warns(FallbackWarning, match="is damaged, and removed"):
            right(net(1))
        assert path.read_bytes() == text
    assert len(converted) == 5


def test_one_that_does_not_load_is_converted_again(converted: list[str]) -> None:
    right(net(0))
    store = EngineStore()
    [path] = store.folder.iterdir()
    store.keep(path.name, b'{"inputs": [], "outputs": []}\nnonsense')
    with pytest.warns(FallbackWarning, match="does not load"):
        right(net(0))
    assert len(converted) == 2
    right(net(0))
    assert len(converted) == 2


def test_the_first_call_waits_for_one_that_loads_in_a_thread(
    converted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dynamo_ext.backends.engines.onnxrt import session

    right(net(0))
    threads: list[threading.Thread] = []
    load = session.load

    def slow(*args: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        time.sleep(0.2)
        return load(*args, **options)

    monkeypatch.setattr(session, "load", slow)
    assert right(net(0))
    assert threads
    assert threading.main_thread() not in threads


def test_the_longest_unused_ones_go(store: EngineStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_store, "MOST_BYTES", 400)
    monkeypatch.setattr(engine_store, "EVERY", 1)
    for place, name in enumerate("abc"):
        store.keep(name, bytes(100))
        os.utime(store.folder / name, (place, place))
    assert store.find("a") == bytes(100)
    store.keep("d", bytes(100))
    assert {path.name for path in store.folder.iterdir()} == {"a", "c", "d"}
    assert store.clear() == 3
    assert store.find("a") is None


def test_a_folder_that_others_may_write_is_not_used(store: EngineStore) -> None:
    store.keep("a", b"program")
    store.folder.chmod(0o777)
    with pytest.warns(FallbackWarning, match="not yours alone"):
        assert store.find("a") is None
    store.folder.chmod(0o700)
    assert store.find("a") == b"program"


def test_a_full_disk_keeps_nothing_and_is_said_once(
    store: EngineStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(engine_store.Path, "write_bytes", full)
    with pytest.warns(FallbackWarning, match="No space left on device"):
        store.keep("a", b"program")
    store.keep("b", b"program")
    assert store.files() == []


def test_symbols_lower_precisions_and_others_operations_have_none(converted: list[str]) -> None:
    module = net(0)
    with torch.no_grad():
        dynamo_ext.optimize("onnxrt", dynamic=True)(module)(torch.ones(3, 4))
        torch.compiler.reset()
        dynamo_ext.optimize("onnxrt:int8")(module)(torch.ones(3, 4))
    assert len(converted) >= 2
    assert EngineStore().files() == []
