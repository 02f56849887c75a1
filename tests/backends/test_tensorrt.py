"""``tensorrt`` without a GPU: its probe, and its options as torch_tensorrt's."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Any

import pytest
import torch

from dynamo_ext.backends import registry, tensorrt
from dynamo_ext.errors import BackendUnavailableError, OptionError

KNOWN = {
    "pass_through_build_failures",
    "min_block_size",
    "workspace_size",
    "torch_executed_ops",
    "enable_autocast",
    "autocast_low_precision_type",
    "optimization_level",
}
DEFAULTS = {spec.name: spec.default for spec in tensorrt.BACKEND.options}


def installed(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)


def test_a_missing_package(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    answer = tensorrt.BACKEND.probe()
    assert "torch_tensorrt is not installed" in answer.reason
    minor = ".".join(torch.__version__.split(".")[:2])
    assert f"torch-tensorrt=={minor}.*" in answer.remedy
    with pytest.raises(BackendUnavailableError, match="torch_tensorrt"):
        registry.compiler("tensorrt", strict=True)
    x = torch.randn(3)
    compiled = harness.compile(torch.sin, registry.compiler("tensorrt"))
    torch.testing.assert_close(compiled(x), x.sin())
    assert harness.stages == ["unavailable"]


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


def test_options_are_translated() -> None:
    assert tensorrt.translated(DEFAULTS, KNOWN) == {
        "pass_through_build_failures": True,
        "min_block_size": 5,
    }
    given = {
        **DEFAULTS,
        "precision": "float16",
        "torch_executed_ops": "torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor",
        "optimization_level": 3,
        "workspace_size": 1024,
    }
    assert tensorrt.translated(given, KNOWN) == {
        "pass_through_build_failures": True,
        "min_block_size": 5,
        "workspace_size": 1024,
        "enable_autocast": True,
        "autocast_low_precision_type": torch.float16,
        "torch_executed_ops": {"torch.ops.aten.add.Tensor", "torch.ops.aten.mul.Tensor"},
        "optimization_level": 3,
    }


def test_what_the_installed_version_lacks_is_an_error() -> None:
    with pytest.raises(OptionError, match="truncate_double"):
        tensorrt.translated({**DEFAULTS, "truncate_double": True}, KNOWN)
    with pytest.raises(OptionError, match="min_block_size"):
        registry.compiler("tensorrt", {"min_block_sise": 1})
