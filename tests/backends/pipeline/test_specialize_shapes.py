"""A graph of symbolic sizes, made over for one set of shapes."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

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


def mixed(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    flat = torch.cat([x, y]).transpose(0, 1).flatten()
    parts = x.unfold(1, 2, 2).permute(2, 0, 1).split(1)
    return [flat * y.shape[0], parts[1], flat.max(0)[1], y[1:, None].expand(-1, x.shape[0], -1)]


def test_facts_are_those_that_running_the_operations_gives() -> None:
    inputs = torch.randn(3, 4), torch.randn(5, 4)
    graph = make_fx(mixed, tracing_mode="symbolic")(*inputs)
    given = torch.randn(7, 8), torch.randn(6, 8)
    made = specialised(graph, given)
    fast = [node.meta.get("val") for node in made.graph.nodes]
    FakeTensorProp(made, dispatch.fake_mode()).propagate(*given)
    slow = [node.meta.get("val") for node in made.graph.nodes]
    assert len(fast) > 10
    for one, other in zip(map(facts, fast), map(facts, slow), strict=True):
        assert one == other


def facts(value: object) -> object:
    if isinstance(value, (tuple, list)):
        return list(map(facts, value))
    if not isinstance(value, torch.Tensor):
        return value
    return value.shape, value.stride(), value.dtype, value.device


def test_a_size_that_no_input_tells_is_found_by_running_the_operations() -> None:
    graph = make_fx(fn, tracing_mode="symbolic")(torch.randn(3, 4))
    given = next(iter(graph.graph.nodes))
    given.meta["val"] = torch.cat([given.meta["val"]] * 2)
    made = specialised(graph, [torch.randn(5, 4)])
    assert not any(dispatch.is_symbolic(node.meta.get("val")) for node in made.graph.nodes)


def test_sizes_that_were_found_to_be_one() -> None:
    with torch.fx.experimental._config.patch(use_duck_shape=False):
        graph = make_fx(torch.add, tracing_mode="symbolic")(torch.randn(3), torch.randn(3))
    first, second = (n.meta["val"] for n in graph.graph.find_nodes(op="placeholder"))
    for shown, other in ((first, second), (second, first)):
        plain = dispatch.without_symbols([shown], [torch.randn(5)])
        assert plain(other).shape == (5,)


def test_keys_tell_shapes_and_numbers_apart() -> None:
    x = torch.ones(2, 3)
    assert shape_key([x, 3]) == shape_key([x + 1, 3])
    assert shape_key([x, 3]) != shape_key([x.t(), 3])
    assert shape_key([x, 3]) != shape_key([x, 4])
