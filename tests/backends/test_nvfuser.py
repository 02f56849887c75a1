"""``nvfuser`` where it cannot run, which is everywhere that this package's torch is."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch

from dynamo_ext.backends import nvfuser, registry
from dynamo_ext.errors import BackendUnavailableError


@pytest.mark.parametrize(
    ("version", "python", "cuda", "packages", "reasons"),
    [
        ("2.13.0+cpu", (3, 11), False, False, ["torch 2.13", "CUDA", "3.11", "not installed"]),
        ("2.13.0", (3, 12), True, True, ["torch 2.13"]),
        ("2.11.0", (3, 12), True, False, ["lightning-thunder and nvFuser are not installed."]),
        ("2.11.0+cu130", (3, 12), True, True, []),
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
