"""Torch's own containers of layers, called by functions that run in Python."""

import torch

import dynamo_ext


def in_python(net: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        if x.sum() > 1e9:
            break
        x = net(x)
    return x


def graphs(net: torch.nn.Module) -> list[int]:
    fast, x = dynamo_ext.optimize("eager")(in_python), torch.rand(2, 8)
    with torch.no_grad():
        assert torch.equal(fast(net, x), in_python(net, x))
    return [graph.calls for graph in fast.report().graphs]


def test_a_container_is_a_graph() -> None:
    linear = torch.nn.Linear
    assert graphs(torch.nn.Sequential(linear(8, 8), torch.nn.ReLU(), linear(8, 8))) == [3]
    assert graphs(torch.nn.TransformerEncoderLayer(8, 2).eval()) == [3]


def test_one_that_cannot_be_captured_leaves_others_alone() -> None:
    class Steers(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x - 1

    fast, x = dynamo_ext.optimize("eager")(in_python), torch.rand(2, 8)
    bad = torch.nn.Sequential(Steers(), torch.nn.Linear(8, 8))
    good = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    with torch.no_grad():
        for net in (bad, good, bad):
            assert torch.equal(fast(net, x), in_python(net, x))
    captured = [f for f in fast.report().frames if "container" in f.file and f.graphs]
    assert captured
