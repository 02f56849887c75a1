"""Every CPU engine against eager: small functions about one trait each, and small models."""

from __future__ import annotations

from typing import Any

import pytest
import torch

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
