"""``tensorrt`` without a GPU: its probe, and its options as torch_tensorrt's."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import sys
import types
from typing import Any

import pytest
import torch

from dynamo_ext.backends import registry, tensorrt, torch_private
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
SETTINGS_2_13 = KNOWN | {
    "truncate_double",
    "cache_built_engines",
    "reuse_cached_engines",
    "require_full_compilation",
}
"""Of the fields of ``torch_tensorrt.dynamo.CompilationSettings``, read in the wheel of 2.13.0."""
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


def test_every_option_is_a_setting_of_2_13() -> None:
    other = {"precision": "bfloat16", "torch_executed_ops": "torch.ops.aten.add.Tensor"}
    given = {
        name: other.get(name, not value if isinstance(value, bool) else 3)
        for name, value in DEFAULTS.items()
    }
    assert set(tensorrt.translated(given, SETTINGS_2_13)) <= SETTINGS_2_13


def test_what_has_no_effect_under_torch_compile_is_no_option() -> None:
    with pytest.raises(OptionError, match="require_full_compilation"):
        registry.compiler("tensorrt", {"require_full_compilation": True})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("precision", "int8", "bfloat16"),
        ("min_block_size", "few", "such as 5"),
        ("optimization_level", 2.5, "optimization_level"),
        ("truncate_double", "perhaps", "true or false"),
    ],
)
def test_values_are_checked_before_anything_runs(name: str, value: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        registry.compiler("tensorrt", {name: value})


def test_lowering_hands_over_the_settings(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the package: its module, its settings and its registered function."""
    seen = []

    @dataclasses.dataclass
    class CompilationSettings:
        pass_through_build_failures: bool = False
        min_block_size: int = 5
        workspace_size: int = 0

    def theirs(graph: Any, inputs: Any, *, options: Any) -> Any:
        seen.append(options)
        if options.get("workspace_size") == 1:
            message = "TRT engine could not be built"
            raise RuntimeError(message)
        return graph.forward

    module = types.ModuleType("torch_tensorrt.dynamo")
    module.CompilationSettings = CompilationSettings  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch_tensorrt", types.ModuleType("torch_tensorrt"))
    monkeypatch.setitem(sys.modules, "torch_tensorrt.dynamo", module)
    monkeypatch.setattr(torch_private, "torch_backend", lambda name: theirs)
    x = torch.randn(3)
    options = {"min_block_size": 1, "workspace_size": 64}
    torch.testing.assert_close(harness.compile(torch.sin, tensorrt.BACKEND, options)(x), x.sin())
    assert seen == [{"pass_through_build_failures": True, **options}]
    assert not harness.stages
    torch._dynamo.reset()
    failing = harness.compile(torch.sin, tensorrt.BACKEND, {"workspace_size": 1})
    torch.testing.assert_close(failing(x), x.sin())
    assert harness.stages == ["lower"]
