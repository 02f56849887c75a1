"""A graph of symbolic sizes, made over for one set of shapes."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from dynamo_ext.backends.pipeline.specialize_shapes import shape_key, specialised
from dynamo_ext.torch_private import dispatch


def fn(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(x.shape[0] * 2, -1).sin() * x.shape[0]


def test_numbers_become_constants() -> None:
    graph = make_fx(fn, tracing_mode="symbolic")(torch.randn(3, 4))
    assert any(dispatch.is_symbolic(node.meta.get("val")) for node in graph.graph.nodes)
    x = torch.randn(5, 4)
    made = specialised(graph, [x])
    assert not any(dispatch.is_symbolic(node.meta.get("val")) for node in made.graph.nodes)
    assert not any("sym_size" in str(node.target) for node in made.graph.nodes)
    torch.testing.assert_close(made(x), fn(x))
    assert any("sym_size" in str(node.target) for node in graph.graph.nodes)


def test_keys_tell_shapes_and_numbers_apart() -> None:
    x = torch.ones(2, 3)
    assert shape_key([x, 3]) == shape_key([x + 1, 3])
    assert shape_key([x, 3]) != shape_key([x.t(), 3])
    assert shape_key([x, 3]) != shape_key([x, 4])
