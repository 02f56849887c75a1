"""Training through the engines that take forward and backward graphs: as eager, to the seed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import registry
from dynamo_ext.numerics import verdict
from tests.needs import needs_backend

Harness = Any
STEPS = 10


@pytest.fixture(params=["onnxrt", "ts", "tvm", "xla"])
def backend(request: pytest.FixtureRequest) -> Any:
    needs_backend(request.param)
    return registry.compiler(request.param)


def cnn() -> tuple[nn.Module, torch.Tensor]:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=2, stride=2), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    )  # fmt: skip
    return module, torch.randn(4, 3, 12, 12)


def mlp() -> tuple[nn.Module, torch.Tensor]:
    module = nn.Sequential(
        nn.Linear(12, 16), nn.GELU(), nn.Dropout(0.3), nn.LayerNorm(16), nn.Linear(16, 16),
        nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4),
    )  # fmt: skip
    return module, torch.randn(6, 12)


def bert(dropout: float = 0.1) -> tuple[nn.Module, torch.Tensor]:
    modeling = pytest.importorskip("transformers.models.bert.modeling_bert")
    config = modeling.BertConfig(
        hidden_size=16, num_attention_heads=2, intermediate_size=32,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
        attn_implementation="sdpa",
    )  # fmt: skip
    return modeling.BertLayer(config), torch.randn(2, 5, 16)


MODELS = {"cnn": cnn, "mlp with dropout": mlp, "bert block": bert}
MODELS["bert block without dropout"] = lambda: bert(0.0)


def first(output: Any) -> torch.Tensor:
    return output[0] if isinstance(output, tuple) else output


def stepped(module: Any, call: Any, x: torch.Tensor, steps: int) -> list[float]:
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    losses = []
    torch.manual_seed(7)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (first(call(x)) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.sweep
@pytest.mark.parametrize("name", list(MODELS))
def test_gradients_and_ten_steps_are_eagers(harness: Harness, backend: Any, name: str) -> None:
    module, x = MODELS[name]()
    x.requires_grad_()
    twin = copy.deepcopy(module)
    compiled = harness.compile(module, backend)
    results = []
    for each, call in ((module, compiled), (twin, twin)):
        torch.manual_seed(3)
        output = first(call(x))
        output.square().mean().backward()
        gradients = [parameter.grad for parameter in each.parameters()]
        results.append([output, x.grad, *gradients, *each.buffers()])
        x.grad = None
    assert verdict.disagreement(*results) == ""
    assert {stage for stage in harness.stages if stage != "unsupported"} == set()
    ran = {p.name.split("_")[0] for p in harness.journal.partitions.values() if p.engine != "eager"}
    assert ran == {"forward", "backward"}
    losses = stepped(module, compiled, x, STEPS)
    assert losses == pytest.approx(stepped(twin, twin, x, STEPS), rel=1e-3)
    assert losses[-1] < losses[0]
    assert "run" not in harness.stages


@pytest.mark.parametrize("name", ["cnn", "mlp with dropout"])
def test_weights_are_never_stale(harness: Harness, backend: Any, name: str) -> None:
    module, x = MODELS[name]()
    module.eval()
    compiled = harness.compile(module, backend)
    before = {key: value.clone() for key, value in module.state_dict().items()}

    def agrees() -> torch.Tensor:
        with torch.no_grad():
            found, expected = compiled(x), module(x)
        assert verdict.disagreement([found], [expected]) == ""
        return found

    start = agrees()
    # A first step creates the optimizer's state, a second one changes weights that are trusted.
    for _ in range(2):
        stepped(module, module, x, 2)
        assert verdict.disagreement([agrees()], [start]) != ""
    module.load_state_dict(before)
    assert torch.allclose(agrees(), start, atol=1e-5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(0.5)
    agrees()
    for parameter in module.parameters():
        parameter.data = parameter.data * 3 + 0.1
    agrees()
    assert verdict.disagreement([agrees()], [start]) != ""
    assert {stage for stage in harness.stages if stage != "unsupported"} == set()


def test_training_and_inference_take_turns(harness: Harness, backend: Any) -> None:
    module, x = mlp()
    twin = copy.deepcopy(module)
    compiled = harness.compile(module, backend)
    for _ in range(3):
        module.train()
        twin.train()
        losses, expected = stepped(module, compiled, x, 2), stepped(twin, twin, x, 2)
        assert losses == pytest.approx(expected, rel=1e-3)
        module.eval()
        twin.eval()
        with torch.no_grad():
            assert verdict.disagreement([compiled(x)], [twin(x)]) == ""
