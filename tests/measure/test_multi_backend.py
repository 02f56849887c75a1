"""Several forms of one graph, and the switch between them."""

from __future__ import annotations

import torch

from dynamo_ext.backends import registry
from dynamo_ext.capture.listen import tracer as tracing
from dynamo_ext.capture.torch_private import regions, wrapping
from dynamo_ext.measure.multi_backend import MultiBackendCompiler, runs_in_engine


def double(graph, inputs):
    return lambda *args: tuple(2 * out for out in graph.forward(*args))


def broken(graph, inputs):
    raise ValueError


def under(board, function, *args):
    tracer = tracing.optimizing(board)
    region = regions.new_region()
    with tracer.surroundings():
        traceable = wrapping.traceable(function)
        return regions.call_in_region(region, tracer.callback, traceable, *args)


def test_every_compiler_gets_every_graph_and_eager_runs_until_told_otherwise():
    board = MultiBackendCompiler({"double": double, "broken": broken})
    tracer = tracing.optimizing(board)
    region = regions.new_region()

    def f(x):
        return x + 1

    def call():
        with tracer.surroundings():
            found = regions.call_in_region(region, tracer.callback, f, torch.ones(2))
        return found.tolist()

    assert call() == [2, 2]
    [switch] = board.switches
    assert set(switch.compiled) == {"eager", "double"}
    assert isinstance(switch.errors["broken"], ValueError)
    board.choose({0: "double"})
    assert call() == [4, 4]
    board.choose({0: "broken"})
    assert call() == [2, 2]
    assert switch.calls == 3
    assert switch.inputs[0].tolist() == [1, 1]


def test_a_backend_may_rewrite_its_graph():
    def rewrites(graph, inputs):
        for node in graph.graph.nodes:
            if node.op == "call_function":
                node.target = torch.sub
        graph.recompile()
        return graph.forward

    board = MultiBackendCompiler({"rewrites": rewrites, "after": lambda g, _: g.forward})
    under(board, lambda x: torch.add(x, 1), torch.ones(2))
    board.choose({0: "rewrites"})
    assert board.switches[0](torch.ones(2))[0].tolist() == [0, 0]
    for name in ("eager", "after"):
        board.choose({0: name})
        assert board.switches[0](torch.ones(2))[0].tolist() == [2, 2]


def test_weights_are_frozen_as_in_a_plain_compile():
    net = torch.nn.Linear(4, 4).eval()
    board = MultiBackendCompiler({"onnxrt": registry.compiler("onnxrt")})
    with torch.no_grad():
        under(board, net, torch.ones(1, 4))
    [part] = board.switches[0].journal("onnxrt").partitions.values()
    assert part.engine == "onnxrt"
    assert part.frozen == 2


def test_a_graph_that_a_backend_leaves_to_eager_does_not_run_in_its_engine():
    names = ("aot_eager", "ofi", "ts")
    board = MultiBackendCompiler({name: registry.compiler(name) for name in names})
    loss = torch.nn.functional.multilabel_margin_loss
    under(board, lambda x, y: loss(x, y) * 2, torch.ones(1, 2), torch.tensor([[1, -1]]))
    under(board, lambda x: (x + 1).relu() * 2, torch.ones(2))
    refused, taken = board.switches
    assert not any(runs_in_engine(refused, name) for name in names)
    assert all(runs_in_engine(taken, name) for name in names)
