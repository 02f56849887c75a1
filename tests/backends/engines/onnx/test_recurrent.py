"""LSTMs in ONNX Runtime: every form of them, and what it would make numbers of."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dynamo_ext
from tests.backends.engine_zoo import same
from tests.needs import needs

needs("onnxruntime")

FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch first": {"batch_first": True},
    "stacked, both ways": {"num_layers": 2, "bidirectional": True},
    "no biases": {"bias": False, "bidirectional": True, "batch_first": True},
    "wide": {"hidden_size": 40, "num_layers": 3},
}


def layers(**options: Any) -> nn.LSTM:
    return nn.LSTM(4, **{"hidden_size": 5, **options}).eval()


def optimized(model: Any, *, dynamic: bool | None = None, **options: Any) -> Any:
    given = {"min_partition": 1, **options}
    return dynamo_ext.optimize("onnxrt", dynamic=dynamic, options=given)(model)


def engines(fast: Any) -> set[str]:
    return {part.engine for graph in fast.report().graphs for part in graph.partitions}


@pytest.fixture(autouse=True)
def _inference() -> Any:
    with torch.no_grad():
        yield


def states(model: nn.LSTM, batch: int) -> Any:
    shape = model.num_layers * (2 if model.bidirectional else 1), batch, model.hidden_size
    return torch.randn(shape), torch.randn(shape)


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_taken_whole(form: str, given: Any) -> None:
    model = layers(**FORMS[form])
    fast = optimized(model)
    for _ in range(3):
        x = torch.randn(3, 6, 4)
        more = (states(model, 3 if model.batch_first else 6),) if given else ()
        same(fast(x, *more), model(x, *more))
    assert engines(fast) == {"onnxrt"}
    assert not fast.report().fallbacks


def test_one_sequence_without_a_batch() -> None:
    model = layers()
    fast = optimized(model)
    for _ in range(2):
        x = torch.randn(6, 4)
        same(fast(x), model(x))
    assert engines(fast) == {"onnxrt"}


def test_as_many_steps_as_come() -> None:
    model = layers(bidirectional=True)
    fast = optimized(model, dynamic=True)
    for steps in (5, 9, 2):
        x = torch.randn(steps, 3, 4)
        same(fast(x), model(x))
    (graph,) = fast.report().graphs
    (partition,) = graph.partitions
    assert (partition.engine, partition.engines_built) == ("onnxrt", 1)


def test_weights_that_are_inputs() -> None:
    model = layers()
    fast = optimized(model, freeze=False)
    x = torch.randn(3, 6, 4)
    for _ in range(2):
        same(fast(x), model(x))
        model.get_parameter("weight_ih_l0").add_(1)
    assert engines(fast) == {"onnxrt"}


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("where", ["inputs", "states"])
@pytest.mark.parametrize("form", ["plain", "stacked, both ways"])
def test_what_is_not_finite_is_left_to_eager(form: str, where: str, odd: float) -> None:
    model = layers(**FORMS[form])
    fast = optimized(model)
    x, given = torch.randn(3, 6, 4), states(model, 6)
    same(fast(x, given), model(x, given))
    {"inputs": x, "states": given[-1]}[where][-1, 2, 3] = odd
    same(fast(x, given), model(x, given))
    (fallback,) = fast.report().fallbacks
    assert (fallback.stage, fallback.scope) == ("run", "partition")
    assert "NaN or infinity" in fallback.message
    x, given = torch.randn(3, 6, 4), states(model, 6)
    same(fast(x, given), model(x, given))
    assert engines(fast) == {"onnxrt"}


def test_weights_that_are_not_finite() -> None:
    model = layers()
    model.get_parameter("weight_hh_l0")[0, 0] = torch.nan
    fast = optimized(model)
    x = torch.randn(3, 6, 4)
    for _ in range(5):
        same(fast(x), model(x))
    assert engines(fast) == {"eager"}
    assert {fallback.stage for fallback in fast.report().fallbacks} == {"run"}


def test_what_has_no_conversion_is_left_to_eager() -> None:
    model = layers().bfloat16()
    fast = optimized(model)
    x = torch.randn(3, 6, 4, dtype=torch.bfloat16)
    for _ in range(2):
        same(fast(x), model(x))
    # On a CPU without a kernel for it the graph ends there.
    assert {fallback.stage for fallback in fast.report().fallbacks} <= {"unsupported"}
