"""A lower precision on a GPU: near float32, its dtypes kept, its cost told."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import dynamo_ext
from tests.backends.engine_zoo import error
from tests.gpu.models import MODELS, made

PRECISIONS = ["bf16", "fp16"]
BACKENDS = ["eager", "aot_eager", "inductor", "cudagraphs"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_results_keep_their_dtype_and_are_near(backend: str, precision: str, model: str) -> None:
    module, x = made(model)
    fast = dynamo_ext.optimize(f"{backend}:{precision}")(module)
    with torch.no_grad():
        found, exact = fast(x), module(x)
    assert not fast.report().fallbacks
    assert (found.dtype, found.device) == (exact.dtype, exact.device)
    assert 1e-5 < error(found, exact) < 0.02
    assert {each.dtype for each in module.parameters()} == {torch.float32}


@pytest.mark.parametrize("backend", BACKENDS)
def test_changed_weights_are_seen(backend: str) -> None:
    module, x = made("mlp")
    fast = dynamo_ext.optimize(f"{backend}:bf16")(module)
    with torch.no_grad():
        for factor in (1, 2, 2, 0.5):
            module[0].weight.mul_(factor)
            assert error(fast(x), module(x)) < 0.02
        other, _ = made("mlp")
        module.load_state_dict(other.state_dict(), assign=True)
        assert error(fast(x), module(x)) < 0.02
    assert not fast.report().fallbacks


@pytest.mark.parametrize("backend", ["eager", "inductor", "cudagraphs"])
def test_training_in_a_lower_precision(backend: str) -> None:
    module, x = made("mlp")
    twin = copy.deepcopy(module)
    twin(x).square().mean().backward()
    dynamo_ext.optimize(f"{backend}:bf16")(lambda: module(x).square().mean())().backward()
    for mine, theirs in zip(module.parameters(), twin.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        assert mine.grad.dtype is torch.float32
        assert 0 < error(mine.grad, theirs.grad) < 0.05


def test_onnxrt_in_int8(compiled: Any) -> None:
    """Its CUDA provider has no product of unsigned eight-bit integers."""
    module, x = made("mlp")
    fast = compiled("onnxrt", module, {"precision": "int8"})
    with torch.no_grad():
        for _ in range(2):
            assert error(fast.call(x), module(x)) < 0.1


def test_a_comparison_shows_what_it_costs() -> None:
    module, x = made("bert")
    with torch.no_grad():
        record = dynamo_ext.compare(
            module, (x,), ["inductor", "inductor:bf16", "eager:fp16"], budget=2.0
        ).record
    assert [each.outcome for each in record.candidates] == ["measured"] * 4
    full, lowered = record.candidates[1].accuracy[0], record.candidates[2].accuracy[0]
    assert lowered.reference == "float64"
    assert lowered.sqnr is not None
    assert full.sqnr is None or full.sqnr > lowered.sqnr
    assert 0.999 < lowered.cosine < 1
    assert record.device == torch.cuda.get_device_name()


def test_auto_within_a_bound() -> None:
    """Where a lower precision wins, what it gives meets the bound."""
    module, x = made("bert")
    fast = dynamo_ext.optimize("auto", options={"accuracy": "cosine>=0.999", "budget": 1.0})(module)
    with torch.no_grad():
        for _ in range(3):
            found = fast(x)
        exact = module(x)
    [graph] = fast.report().graphs
    assert graph.contest is not None
    assert {"eager:bf16", "inductor:fp16"} <= {each.backend for each in graph.contest.contestants}
    cosine = torch.nn.functional.cosine_similarity(found.flatten(), exact.flatten(), 0)
    assert float(cosine) >= 0.999
