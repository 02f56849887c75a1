"""The zoo's models, tiny: what they are, and each of them under each CPU backend."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

from benchmarks.backends import ENGINES
from benchmarks.models.row import Row
from benchmarks.models.run import rows
from benchmarks.workers import Bounds
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import TINY
from benchmarks.zoo.model import tensors
from dynamo_ext.backends import registry
from tests.crosses import share

BOUNDS = Bounds(seconds=200, memory=6)
FEW = ["MLP", "dict-in-dict-out", "GCN layer"]
EVERYWHERE = [
    *("dict-in-dict-out", "ResNet-18", "MobileNetV2", "ConvNeXt", "BERT-base", "GPT-2"),
    *("Llama block", "LSTM tagger", "LSTM cells", "GCN layer"),
]
"""One of each kind, for every engine; `make models` runs them all, at full size."""

OTHERS = [name for name in MODELS if name not in EVERYWHERE]


def numbers(output: object) -> list[torch.Tensor]:
    return [leaf for leaf in tensors(output) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_a_model_is_the_same_each_time_and_has_something_to_say(model):
    first, second = model.build(TINY), model.build(TINY)
    assert first.module.training is model.learns
    with first.gradients():
        found = numbers(first.module(*first.args, **first.kwargs))
        again = numbers(second.module(*second.args, **second.kwargs))
    assert found
    for mine, theirs in zip(found, again, strict=True):
        assert torch.equal(mine, theirs)
        assert mine.double().isfinite().all()
    largest = max(float(leaf.double().abs().max()) for leaf in found)
    assert 1e-2 < largest < 100


@pytest.fixture(scope="module", params=ENGINES)
def engine_rows(request: pytest.FixtureRequest) -> list[Row]:
    name = request.param
    if not registry.probe(registry.get(name)).available:
        pytest.skip(f"{name} does not run here")
    models = share(EVERYWHERE, ENGINES.index(name), 3)
    return list(rows(models, name, "float32", form=TINY, bounds=BOUNDS))


def test_every_model_is_right_in_every_engine_and_runs_there(engine_rows):
    found = {r.key: (r.status, r.reason, r.engine_failures, r.in_engine > 0) for r in engine_rows}
    assert found == dict.fromkeys(found, ("right", "", (), True))
    refused = {note.operator for row in engine_rows for note in row.notes}
    assert "aten.convolution.default" not in refused


@pytest.mark.parametrize(
    ("backend", "dtype", "models"),
    [
        ("eager", "float32", share(MODELS, 0, 3)),
        ("onnxrt", "float32", share(OTHERS, 0, 3)),
        ("inductor", "float32", FEW),
        ("ofi", "bfloat16", FEW),
        ("onnxrt", "bfloat16", [*FEW, "BERT-base"]),
        ("openvino", "bfloat16", FEW),
    ],
)
def test_other_backends_and_dtypes(backend, dtype, models):
    if not registry.probe(registry.get(backend)).available:
        pytest.skip(f"{backend} does not run here")
    found = list(rows(models, backend, dtype, form=TINY, bounds=BOUNDS))
    assert [(r.model, r.status) for r in found] == [(name, "right") for name in models]
    captured = [r for r in found if r.model != "early exit"]
    assert [r.engine_failures for r in captured] == [()] * len(captured)
