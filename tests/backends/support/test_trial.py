"""Trials of one operation on made-up data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynamo_ext.backends.base import Lowered, LoweringRequest
from dynamo_ext.backends.support import trial

if TYPE_CHECKING:
    import pytest


class OnDevice(torch.Tensor):
    """A tensor that says it lies on a GPU; where it is used there, ``indices`` are noted."""

    indices: list[torch.Tensor] = []  # noqa: RUF012 - one for all

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    def cpu(self) -> torch.Tensor:
        return self.as_subclass(torch.Tensor)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.embedding.default:
            cls.indices.append(args[1].cpu())
        return super().__torch_function__(func, types, args, kwargs or {})


def test_an_index_that_the_cpu_refuses_is_not_tried_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There it would end every later use of the device by the process."""
    graph = torch.fx.Graph()
    weight, index = graph.placeholder("weight"), graph.placeholder("index")
    node = graph.call_function(torch.ops.aten.embedding.default, (weight, index))
    graph.output((node,))
    weight.meta["val"] = torch.randn(5, 3).as_subclass(OnDevice)
    index.meta["val"] = torch.zeros(2, 4, dtype=torch.int64).as_subclass(OnDevice)
    node.meta["val"] = torch.randn(2, 4, 3)
    made = trial._values
    monkeypatch.setattr(trial, "_values", lambda *a: made(*a).as_subclass(OnDevice))
    OnDevice.indices.clear()

    def lower(request: LoweringRequest) -> Lowered:
        return Lowered(lambda *data: request.graph(*(value.cpu() for value in data)))

    assert trial.disagreement(node, lower, "It") == ""
    assert OnDevice.indices
    assert all(((each >= 0) & (each < 5)).all() for each in OnDevice.indices)
