"""``torch.compile(backend="dx_…")`` with no import of ours."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import entrypoints
from dynamo_ext.errors import FallbackWarning, OptionError


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.backends import registry as theirs

    theirs._lazy_import()
    value = "dynamo_ext.backends.entrypoints:onnxrt"
    entry = importlib.metadata.EntryPoint("dx_onnxrt", value, "torch_dynamo_backends")
    monkeypatch.setitem(theirs._BACKENDS, "dx_onnxrt", entry)
    monkeypatch.delitem(theirs._COMPILER_FNS, "dx_onnxrt", raising=False)
    yield
    theirs._COMPILER_FNS.pop("dx_onnxrt", None)


def test_options_arrive(registered: None) -> None:
    pytest.importorskip("onnxruntime")
    options = {"threads": 1, "freeze": False}
    compiled = torch.compile(nn.Linear(4, 2), backend="dx_onnxrt", options=options)
    with torch.no_grad():
        assert compiled(torch.randn(3, 4)).shape == (3, 2)
    torch._dynamo.reset()
    wrong = torch.compile(nn.Linear(4, 2), backend="dx_onnxrt", options={"thread": 1})
    with pytest.raises(Exception, match="threads"):
        wrong(torch.randn(3, 4))


def test_modes() -> None:
    graph: Any = torch.fx.symbolic_trace(lambda x: x + 1)
    with pytest.raises(OptionError, match="no modes"):
        entrypoints.eager(graph, [torch.ones(1)], mode="max-autotune")
    with pytest.raises(OptionError, match="reduce-overhead"):
        entrypoints.inductor(graph, [torch.ones(1)], mode="fastest")


def test_fallbacks_are_warnings_there(registered: None) -> None:
    pytest.importorskip("onnxruntime")

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x).abs() + 1

    compiled = torch.compile(fn, backend="dx_onnxrt")
    with pytest.warns(FallbackWarning, match="unsupported"):
        torch.testing.assert_close(compiled(torch.ones(4)), fn(torch.ones(4)))
