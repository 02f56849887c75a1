"""Dropout in evaluation gives its input itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from dynamo_ext.backends import registry
from dynamo_ext.backends.passes.noop_dropout import give_inputs
from tests.capture.captured import captured

Harness = Any

IDLE = {
    "off": lambda x: functional.dropout(x, 0.5, training=False),
    "off, by position": lambda x: functional.dropout(x, 0.5, False),
    "nothing to drop": lambda x: functional.dropout(x, 0.0),
    "alpha, whose default is off": functional.alpha_dropout,
    "of torch": lambda x: torch.dropout(x, 0.5, False),
    "channels": lambda x: functional.dropout2d(x, training=False),
    "modules": nn.Sequential(nn.Dropout(), nn.Identity(), nn.AlphaDropout()).eval(),
}


@pytest.mark.parametrize("name", IDLE)
@pytest.mark.parametrize("engine", ["aot_eager", "onnxrt", "ts"])
def test_what_is_written_to_the_result_reaches_the_input(
    harness: Harness, engine: str, name: str
) -> None:
    if not registry.probe(registry.get(engine)).available:
        pytest.skip(f"{engine} does not run here")
    function = IDLE[name]
    compiled = harness.compile(lambda x: (function(x), x + 1), registry.compiler(engine))
    with torch.no_grad():
        for _ in range(2):
            x = torch.zeros(2, 4, 3, 3)
            y, more = compiled(x)
            assert y is x
            y.add_(1)
            assert torch.equal(x, more)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.dropout(x, 0.5),
        lambda x: functional.dropout1d(x, training=False),  # of one batch: a view
        lambda x: functional.alpha_dropout(x, training=True),
        lambda x: x.sin(),
    ],
)
def test_what_drops_or_gives_a_view_stays(function: Any) -> None:
    graph, _ = captured(function, torch.zeros(2, 3))
    before = str(graph.graph)
    give_inputs(graph)
    assert str(graph.graph) == before
