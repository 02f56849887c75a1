"""``nvfuser`` where it cannot run, which is everywhere that this package's torch is."""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any

import pytest
import torch

from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.nvfuser import backend as nvfuser
from dynamo_ext.errors import BackendUnavailableError, OptionError


@pytest.mark.parametrize(
    ("version", "python", "cuda", "packages", "reasons"),
    [
        ("2.13.0+cpu", (3, 11), False, False, ["torch 2.13", "CUDA", "3.11", "not installed"]),
        ("2.13.0", (3, 12), True, True, ["torch 2.13"]),
        ("2.11.0", (3, 12), True, True, ["torch 2.11"]),
        ("2.10.0", (3, 12), True, False, ["lightning-thunder and nvFuser are not installed."]),
        ("2.10.0+cu130", (3, 12), True, True, []),
        ("2.9.1", (3, 10), True, True, []),
    ],
)
def test_every_reason_is_named(  # noqa: PLR0917 - one parameter each
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    python: tuple[int, int],
    cuda: Any,
    packages: Any,
    reasons: list[str],
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if packages else None)
    found = nvfuser.problems(version, python, cuda=cuda)
    assert len(found) == len(reasons)
    assert all(reason in text for reason, text in zip(reasons, found, strict=True))


def test_it_runs_eagerly_here(harness: Any) -> None:
    answer = nvfuser.BACKEND.probe()
    if answer.available:
        pytest.skip("nvFuser is here")
    assert answer.reason
    assert "lightning-thunder" in answer.remedy
    with pytest.raises(BackendUnavailableError, match="nvfuser is not available"):
        registry.compiler("nvfuser", strict=True)
    x = torch.randn(3)
    torch.testing.assert_close(harness.compile(torch.sin, registry.compiler("nvfuser"))(x), x.sin())
    assert harness.stages == ["unavailable"]


@pytest.mark.parametrize("module", ["nvfuser_direct", "nvfuser"])
def test_either_of_its_modules_will_do(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """The wheels for torch 2.10 hold ``nvfuser_direct`` alone."""
    there = {"thunder", module}
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: object() if n in there else None)
    assert nvfuser.problems("2.10.0", (3, 12), cuda=True) == []


def test_lowering_tells_what_inductor_runs(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for thunder with the names of 0.2.6."""
    made = []

    class ThunderCompiler:
        def __init__(self, **options: Any) -> None:
            made.append(options)
            reason = types.SimpleNamespace(info="sin is not supported.")
            self.subgraph_infos = [
                types.SimpleNamespace(split_reasons=[reason]),
                types.SimpleNamespace(split_reasons=None),
            ]

        def __call__(self, graph: Any, inputs: list[Any]) -> Any:
            return graph.forward

    dynamo: Any = types.ModuleType("thunder.dynamo")
    dynamo.ThunderCompiler = ThunderCompiler
    extend: Any = types.ModuleType("thunder.extend")
    extend.get_executor = {"nvfuser": "the executor"}.get
    for name, value in {
        "thunder": None,
        "thunder.dynamo": dynamo,
        "thunder.extend": extend,
    }.items():
        monkeypatch.setitem(sys.modules, name, value or types.ModuleType(name))
    x = torch.randn(3)
    torch.testing.assert_close(harness.compile(torch.sin, nvfuser.BACKEND)(x), x.sin())
    assert made == [{"executors": ["the executor"]}]
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope) == ("unsupported", "graph")
    assert fallback.message == "Inductor runs a part: sin is not supported."


def test_a_thunder_without_its_executor_is_a_fallback(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    extend: Any = types.ModuleType("thunder.extend")
    extend.get_executor = lambda name: None
    monkeypatch.setitem(sys.modules, "thunder", types.ModuleType("thunder"))
    monkeypatch.setitem(sys.modules, "thunder.extend", extend)
    monkeypatch.setitem(sys.modules, "thunder.dynamo", types.ModuleType("thunder.dynamo"))
    x = torch.randn(3)
    torch.testing.assert_close(harness.compile(torch.cos, nvfuser.BACKEND)(x), x.cos())
    assert harness.stages == ["lower"]


@pytest.mark.parametrize("given", [{"fusion": "on"}, {"verify": "perhaps"}])
def test_options_are_checked(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"verify|true or false"):
        registry.compiler("nvfuser", given)
