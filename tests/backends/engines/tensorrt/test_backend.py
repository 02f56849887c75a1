"""``tensorrt`` without a GPU: its probe, and its options as torch_tensorrt's."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.tensorrt import backend as tensorrt
from dynamo_ext.backends.torch_private import aot
from dynamo_ext.errors import OptionError
from tests.backends.engine_zoo import is_unavailable

KNOWN = {
    "pass_through_build_failures",
    "min_block_size",
    "workspace_size",
    "torch_executed_ops",
    "enable_autocast",
    "autocast_low_precision_type",
    "optimization_level",
}


def installed(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)


def test_a_missing_package(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    answer = tensorrt.BACKEND.probe()
    assert "torch_tensorrt is not installed" in answer.reason
    minor = ".".join(torch.__version__.split(".")[:2])
    assert f"torch-tensorrt=={minor}.*" in answer.remedy
    is_unavailable(harness, "tensorrt", "torch_tensorrt")


def test_another_torchs_package(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "2.4.0")
    answer = tensorrt.BACKEND.probe()
    assert not answer.available
    assert "made for torch 2.4" in answer.reason


def test_no_device_and_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, torch.__version__)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "CUDA device" in tensorrt.BACKEND.probe().reason
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert tensorrt.BACKEND.probe().available


def settled(**given: Any) -> dict[str, Any]:
    return dict(registry.compiler("tensorrt", given).options)


def test_options_are_passed_on() -> None:
    assert tensorrt.translated(settled(), KNOWN) == {"pass_through_build_failures": True}
    given = settled(
        verify="no",
        enable_autocast="true",
        autocast_low_precision_type="float16",
        torch_executed_ops="{'torch.ops.aten.add.Tensor'}",
        optimization_level="3",
        workspace_size=1024,
    )
    assert given["verify"] is False
    assert tensorrt.translated(given, KNOWN) == {
        "pass_through_build_failures": True,
        "workspace_size": 1024,
        "enable_autocast": True,
        "autocast_low_precision_type": torch.float16,
        "torch_executed_ops": {"torch.ops.aten.add.Tensor"},
        "optimization_level": 3,
    }
    names = settled(torch_executed_ops={"torch.ops.aten.add.Tensor"})["torch_executed_ops"]
    assert names == ("torch.ops.aten.add.Tensor",)


def test_what_the_installed_version_lacks_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"no setting truncate_double\. Leave"):
        tensorrt.translated(settled(truncate_double=True), KNOWN)
    with pytest.raises(OptionError, match=r"min_block_sise\. Did you mean min_block_size\?"):
        tensorrt.translated(settled(min_block_sise=1), KNOWN)


def test_a_precision_behind_the_name_is_torchs_autocast(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def theirs(graph: Any, inputs: Any, *, options: Any) -> Any:
        seen.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), options))
        return torch.compiler.disable(graph.forward)

    stand_in(monkeypatch, theirs)
    x = torch.randn(8, 8)
    chosen = registry.compiler("tensorrt", {"precision": "fp16", "min_block_size": 1}).options
    with torch.no_grad():
        found = harness.compile(torch.mm, tensorrt.BACKEND, chosen)(x, x)
    assert found.dtype is torch.float32
    settings = {"pass_through_build_failures": True, "min_block_size": 1}
    assert seen == [(True, torch.float16, settings)]
    assert not harness.stages


@dataclasses.dataclass
class Settings:
    pass_through_build_failures: bool = False
    min_block_size: int = 5
    workspace_size: int = 0


def stand_in(monkeypatch: pytest.MonkeyPatch, theirs: Callable[..., Any]) -> None:
    """A stand-in for the package: its module, its settings and its registered function."""
    module = types.ModuleType("torch_tensorrt.dynamo")
    module.CompilationSettings = Settings  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch_tensorrt", types.ModuleType("torch_tensorrt"))
    monkeypatch.setitem(sys.modules, "torch_tensorrt.dynamo", module)
    monkeypatch.setattr(aot, "torch_backend", lambda name: theirs)


def test_lowering_hands_over_the_settings(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def theirs(graph: Any, inputs: Any, *, options: Any) -> Any:
        seen.append(options)
        if options.get("workspace_size") == 1:
            message = "TRT engine could not be built"
            raise RuntimeError(message)
        return graph.forward

    stand_in(monkeypatch, theirs)
    x = torch.randn(3)
    options = {"min_block_size": 1, "workspace_size": 64}
    torch.testing.assert_close(harness.compile(torch.sin, tensorrt.BACKEND, options)(x), x.sin())
    assert seen == [{"pass_through_build_failures": True, **options}]
    assert not harness.stages
    torch._dynamo.reset()
    failing = harness.compile(torch.sin, tensorrt.BACKEND, {"workspace_size": 1})
    torch.testing.assert_close(failing(x), x.sin())
    assert harness.stages == ["lower"]
