"""How much of a graph's products autocast lowers, counted without computing any."""

from __future__ import annotations

import torch

from dynamo_ext.backends.pipeline.autocast.lowering import Lowering


def graph_of_reading() -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    found = graph.call_function(torch.nonzero, (graph.call_function(torch.matmul, (x, x)),))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output((found,))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def test_a_graph_that_reads_values_is_not_counted_and_leaves_gradients_on() -> None:
    graph, x = graph_of_reading(), torch.ones(2, 2)
    assert Lowering(graph, [x], "bf16").product_operations(graph, [x]) is None
    assert torch.is_grad_enabled()
