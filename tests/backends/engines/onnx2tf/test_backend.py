"""ONNX to TensorFlow against eager: values, what is refused, memory, and what it leaves alone."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.onnx2tf import session
from tests.backends import engine_zoo
from tests.needs import needs

Harness = Any

needs("tensorflow")


def onnx2tf(**options: Any) -> Any:
    return registry.compiler("onnx2tf", options)


ZOO: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "signs": (
        lambda x, y: (x // y, x % y, torch.fmod(x, y)),
        (torch.tensor([-7, 7, -7]), torch.tensor([2, -2, -2])),
    ),
    "unaligned": (lambda x: x.exp() + x, (torch.randn(33)[1:],)),
    "cut off": (lambda x: F.pad(x, (-1, 2)) * 2, (torch.randn(3, 6),)),
    "dilated windows": (
        lambda x: F.max_pool2d(x, 3, stride=2, padding=1, dilation=2) + 1,
        (torch.randn(1, 2, 9, 8),),
    ),
    "rounded up": (
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True) + 1,
        (torch.randn(1, 2, 8, 8),),
    ),
    "depthwise": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1, dilation=2, groups=4) + 1,
        (torch.randn(2, 4, 9, 8), torch.randn(8, 1, 3, 3), torch.randn(8)),
    ),
    "coordinates": (
        lambda x, i, j, y: (x[i, j] * 2, torch.index_put(x, (i, j), y) + 1),
        (torch.randn(5, 3), torch.tensor([-1, 0]), torch.tensor([2, -3]), torch.randn(2)),
    ),
    "hard swish": (
        lambda x: F.adaptive_avg_pool2d(F.hardswish(x * 2), 1) + 1,
        (torch.randn(2, 3, 4, 4),),
    ),
    "scaled product": (
        lambda b, x, y: torch.addmm(b, x, y, alpha=2.0, beta=0.5) + 1,
        (torch.randn(4), torch.randn(2, 3), torch.randn(3, 4)),
    ),
} | {name: engine_zoo.ZOO[name] for name in ("twice", "constants", "gather", "index", "nan")}


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_gives_what_eager_gives(harness: Harness, name: str) -> None:
    with torch.no_grad():
        engine_zoo.gives_what_eager_gives(
            harness, onnx2tf(verify=False, min_partition=1), ZOO[name]
        )


TAKEN = [
    "float32", "bfloat16", "int64", "signs", "overflow", "bool", "index", "cut off", "norms",
    "dilated windows", "depthwise", "coordinates", "hard swish",
]  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_what_it_should_take_it_takes_whole(harness: Harness, name: str) -> None:
    engine_zoo.takes_whole(harness, onnx2tf(), {**engine_zoo.ZOO, **ZOO}[name])


def test_inputs_and_outputs_are_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    dlpack = session.tensorflow().experimental.dlpack
    adopt, give, take = dlpack.from_dlpack, dlpack.to_dlpack, session.from_dlpack
    lent, given = [], []

    def spy(value: Any) -> Any:
        made = adopt(value)
        lent.append(take(give(made)).data_ptr())
        return made

    def receive(value: Any) -> Any:
        given.append(take(value))
        return given[-1]

    example = torch.randn(32)
    run = engine_zoo.lowered("onnx2tf", engine_zoo.square, example)
    monkeypatch.setattr(dlpack, "from_dlpack", spy)
    monkeypatch.setattr(session, "from_dlpack", receive)
    results = [run(example)[0].data_ptr() for _ in range(2)]
    assert lent == [example.data_ptr()] * 2
    assert results == [value.data_ptr() for value in given]


def _from_below(call: Any, x: torch.Tensor, frames: int) -> Any:
    return _from_below(call, x, frames - 1) if frames else call(x)


@pytest.mark.usefixtures("older_objects_frozen")
@pytest.mark.parametrize("frames", [0, 5])
def test_weights_go_with_the_compiled_code(frames: int) -> None:
    torch._dynamo.reset()
    alive = []
    # The second model's weights are handed over from within code that the first one left.
    models = [engine_zoo.mlp(), engine_zoo.mlp()]
    x = torch.randn(2, 8)
    with torch.no_grad():
        for model in models:
            compiled = torch.compile(model, backend=onnx2tf())
            engine_zoo.same(_from_below(compiled, x, frames), model(x))
            compiled(x)
            alive += [weakref.ref(weight) for weight in model.parameters()]
    del model, models, compiled
    torch._dynamo.reset()
    gc.collect()
    assert not [reference for reference in alive if reference() is not None]
