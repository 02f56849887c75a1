"""Every CPU engine against eager: small functions about one trait each, and small models."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import registry
from tests.backends.engine_zoo import (
    MODELS,
    ZOO,
    Recurrent,
    gives_what_eager_gives,
    mlp,
    same,
)

Harness = Any
ENGINES = ("ts", "ofi", "onnxrt", "openvino", "tvm", "xla", "lazy", "onnx2tf")
TRAINS = tuple(name for name in ENGINES if name != "ofi")
# Lazy leaves a part of an attention block to eager; its own tests have its models.
WHOLE = tuple(name for name in ENGINES if name != "lazy")
ONE_ENGINE_A_SHAPE = ("openvino", "tvm", "onnx2tf")


def compiler(name: str, **options: Any) -> Any:
    if not registry.probe(registry.get(name)).available:
        pytest.skip(f"{name} does not run here")
    return registry.compiler(name, options)


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_zoo_gives_what_eager_gives(harness: Harness, engine: str, name: str) -> None:
    with torch.no_grad():
        gives_what_eager_gives(harness, compiler(engine, verify=False, min_partition=1), ZOO[name])


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scaled = self.weight.softmax(-1) * 2
        return x @ scaled, scaled, torch.arange(12.0).exp(), torch.zeros_like(x).exp() - 1


@pytest.mark.parametrize("engine", ENGINES)
def test_results_that_depend_on_no_input_are_the_caller_s_to_write_to(
    harness: Harness, engine: str
) -> None:
    model = Constant().eval()
    compiled = harness.compile(model, compiler(engine, min_partition=1))
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(2, 4)
            found, expected = compiled(x), model(x)
            for mine, theirs in zip(found, expected, strict=True):
                same(mine, theirs)
                mine.fill_(99.0)
    assert not set(harness.stages) - {"unsupported"}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("engine", WHOLE)
def test_models_run_in_one_part_and_follow_their_weights(
    harness: Harness, engine: str, name: str
) -> None:
    make, shape = MODELS[name]
    model = make().eval()
    compiled = harness.compile(model, compiler(engine))
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(shape)
            same(compiled(x), model(x))
        for parameter in model.parameters():
            parameter.mul_(1.5)
        for _ in range(2):
            x = torch.randn(shape)
            same(compiled(x), model(x))
    assert set(harness.engines) == {engine}
    assert not harness.stages


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("engine", TRAINS)
def test_gradients(harness: Harness, engine: str, name: str, train: Any) -> None:
    make, shape = MODELS[name]
    model, twin = make().train(train), make().train(train)
    twin.load_state_dict(model.state_dict())
    compiled = harness.compile(model, compiler(engine))
    for _ in range(2):
        x = torch.randn(shape)
        for each in (compiled, twin):
            each(x).square().mean().backward()
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-5)
    for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert set(harness.stages) <= {"unsupported"}
    assert harness.engines[engine]


@pytest.mark.parametrize("engine", ["openvino", "tvm"])
def test_an_lstm(harness: Harness, engine: str) -> None:
    """Dynamo leaves recurrent modules out of graphs unless it is told to take them in."""
    model = Recurrent().eval()
    with torch._dynamo.config.patch(allow_rnn=True), torch.no_grad():
        compiled = harness.compile(model, compiler(engine))
        for _ in range(2):
            x = torch.randn(2, 5, 8)
            same(compiled(x), model(x))
    assert set(harness.stages) <= {"unsupported"}


@pytest.mark.parametrize("engine", ONE_ENGINE_A_SHAPE)
def test_each_shape_has_its_engine(harness: Harness, engine: str) -> None:
    model = mlp()
    compiled = harness.compile(model, compiler(engine), dynamic=True)
    with torch.no_grad():
        for batch in (3, 5, 64, 3):
            x = torch.randn(batch, 8)
            same(compiled(x), model(x))
    (partition,) = harness.journal.partitions.values()
    assert (partition.engine, partition.engines_built) == (engine, 3)


@pytest.mark.parametrize("engine", TRAINS)
def test_ten_steps_follow_eager(harness: Harness, engine: str) -> None:
    losses = []
    for made in (None, compiler(engine)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 1))
        step = torch.optim.SGD(model.parameters(), lr=0.1)
        run = harness.compile(model, made) if made else model
        curve = []
        for _ in range(10):
            loss = (run(torch.randn(4, 8)) - 1).square().mean()
            step.zero_grad()
            loss.backward()
            step.step()
            curve.append(loss.item())
        losses.append(curve)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.parametrize("engine", ["openvino", "tvm", "xla"])
def test_a_scale_by_a_symbolic_size_is_tried_as_the_number_it_was(
    harness: Harness, engine: str, capfd: pytest.CaptureFixture[str]
) -> None:
    norm = nn.BatchNorm1d(3).train()
    compiled = harness.compile(norm, compiler(engine))
    with torch.no_grad():
        for batch in (4, 3, 5):
            x = torch.randn(batch, 3, 7)
            twin = copy.deepcopy(norm)
            found = compiled(x)
            same(found, twin(x))
            same(norm.running_var, twin.running_var)
    assert "Traceback" not in capfd.readouterr().err
    assert not [f for f in harness.journal.fallbacks.values() if "No data were found" in f.message]


@pytest.mark.parametrize("engine", ENGINES)
def test_threads_share_an_engine(engine: str) -> None:
    found = compiler(engine)
    graph = torch.fx.symbolic_trace(lambda x: (torch.ops.aten.mul.Tensor(x, x),))
    example = torch.randn(64)
    for node in graph.graph.nodes:
        node.meta["val"] = example
    run = found.backend.lower(graph, [example], found.options)
    wrong = []

    def work(number: int) -> None:
        x = torch.full((64,), float(number))
        wrong.extend(number for _ in range(50) if not torch.equal(run(x)[0], x * x))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
