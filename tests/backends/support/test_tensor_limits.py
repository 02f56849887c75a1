"""What an engine says of tensors that it does not take."""

from __future__ import annotations

import operator

import pytest
import torch
from torch.fx import Graph

from dynamo_ext.backends.support.tensor_limits import TensorLimits

LIMITS = TensorLimits("It", ("float32", "int64"), "No {}.", {"int8": "Wrong."}, "Nothing in it.")


@pytest.mark.parametrize(
    ("tensor", "sentence"),
    [
        (torch.ones(2), ""),
        (torch.ones(2, 2).to_sparse(), "It takes dense tensors only."),
        (torch.ones(2, device="meta"), "This It backend does not run on meta devices."),
        (torch.ones(2, dtype=torch.float64), "No float64."),
        (torch.ones(2, dtype=torch.int8), "Wrong."),
        (torch.ones(2, 0), "Nothing in it."),
    ],
)
def test_every_input_and_every_result_that_is_read(tensor: torch.Tensor, sentence: str) -> None:
    graph = Graph()
    source = graph.placeholder("x")
    node = graph.call_function(torch.ops.aten.topk.default, (source, 1))
    source.meta["val"], node.meta["val"] = torch.ones(2), (torch.ones(1), tensor)
    assert not LIMITS.unsupported_reason(node)
    graph.call_function(operator.getitem, (node, 1))
    assert LIMITS.unsupported_reason(node) == sentence
    source.meta["val"], node.meta["val"] = tensor, torch.ones(2)
    assert LIMITS.unsupported_reason(node) == sentence


def test_an_engine_may_take_more() -> None:
    graph = Graph()
    node = graph.placeholder("x")
    node.meta["val"] = torch.ones(2, 0, device="meta", dtype=torch.complex64)
    assert not TensorLimits("It").unsupported_reason(node, ("meta",))
