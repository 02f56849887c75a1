"""TorchScript against eager, and optimised for inference."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from torch import nn

import dynamo_ext
from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.torchscript.backend import TS
from tests.backends.engine_zoo import ZOO as COMMON
from tests.backends.engine_zoo import cnn, follows_its_weights, has_eagers_gradients, mlp, same

Harness = Any


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(6, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = x.new_zeros(len(x), 8), x.new_zeros(len(x), 8)
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.head(state[0])


def block() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)


MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp": (mlp, (3, 8)),
    "cnn": (cnn, (2, 3, 8, 8)),
    "transformer": (block, (2, 5, 16)),
    "lstm": (Recurrent, (2, 4, 6)),
}


def inplace(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    x[0] = 5
    return x * 2


ZOO: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "int64-overflow": (lambda x: x * 4 + 1, (torch.tensor([2**62, -(2**63)]),)),
    "uint8": (lambda x: x + 10, (torch.arange(250, 256, dtype=torch.uint8),)),
    "infinite": (lambda x: x.masked_fill(x > 0, -torch.inf).softmax(0), (torch.randn(5),)),
    "to-zero-dim": (lambda x: x.view([]) + x.sum(), (torch.randn(1),)),
    "negative-index": (lambda x: (x[:, -1] + 1, x[-2:], x.select(-1, -2)), (torch.randn(3, 4),)),
    "inplace-input": (inplace, (torch.randn(3, 3),)),
    "equal": (lambda x: (x + 1, x + 1), (torch.randn(3),)),
    "numbers": (lambda x, k: (x * k, x / 3, 2 - x, x**k), (torch.randn(3), 4)),
    "index": (lambda x, i: (x[i], x[:, i], x[i, 1:]), (torch.randn(5, 5), torch.tensor([4, 0]))),
    "put": (lambda x, i: x.index_put((i,), x[0]), (torch.randn(5, 3), torch.tensor([4, 0]))),
    "unbind": (lambda x: [y * 2 for y in x.unbind(1)], (torch.randn(3, 4),)),
    "cast": (lambda x: x.to(torch.int32) + x.long(), (torch.randn(3) * 9,)),
} | {name: COMMON[name] for name in ("alpha", "causal", "constants", "inplace", "number", "views")}


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args)


@pytest.mark.parametrize("backend", ["ts", "ofi"])
@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_gives_what_eager_gives(harness: Harness, name: str, backend: str) -> None:
    fn, args = ZOO[name]
    compiled = harness.compile(fn, registry.compiler(backend))
    for _ in range(4):
        mine, theirs = copied(args), copied(args)
        with torch.no_grad():
            same(compiled(*mine), fn(*theirs))
        same(mine, theirs)
    assert harness.stages == []


@pytest.mark.parametrize("backend", ["ts", "ofi"])
@pytest.mark.parametrize("name", MODELS)
def test_models_run_in_one_part_and_follow_their_weights(
    harness: Harness, name: str, backend: str
) -> None:
    make, shape = MODELS[name]
    follows_its_weights(harness, registry.compiler(backend), make, lambda: torch.randn(shape))


@pytest.mark.parametrize("backend", ["ts", "ofi"])
def test_torchs_lstm_where_dynamo_captures_it(harness: Harness, backend: str) -> None:
    model = nn.LSTM(6, 8, num_layers=2, batch_first=True, bidirectional=True).eval()
    with torch._dynamo.config.patch(allow_rnn=True), torch.no_grad():
        compiled = harness.compile(model, registry.compiler(backend))
        for _ in range(3):
            x = torch.randn(2, 4, 6)
            torch.testing.assert_close(compiled(x), model(x))
    assert harness.stages == []
    assert set(harness.engines) == {backend}


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_eagers(harness: Harness, name: str, train: Any) -> None:
    make, shape = MODELS[name]
    models, compiler = (make().train(train), make().train(train)), registry.compiler("ts")
    has_eagers_gradients(harness, compiler, models, lambda: torch.randn(shape), rtol=1e-4)
    assert harness.stages == []
    kinds = {name.partition("_")[0] for name in harness.journal.partitions}
    assert kinds == {"forward", "backward"}


def test_what_torchscript_lacks_is_refused() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(3)
    right = graph.call_function(torch.ops.aten.add.Tensor, (x, 1))
    wrong = graph.call_function(torch.ops.aten.maximum.default, (x, 1))
    assert TS.supports(right)
    answer = TS.supports(wrong)
    assert not answer
    assert "TorchScript" in answer.reason


def test_it_prints_nothing_and_leaves_settings_alone(
    harness: Harness, capfd: pytest.CaptureFixture[str]
) -> None:
    def settings() -> tuple[Any, ...]:
        profiling = torch._C._jit_set_profiling_executor(True)
        torch._C._jit_set_profiling_executor(profiling)
        mode = torch._C._jit_set_profiling_mode(True)
        torch._C._jit_set_profiling_mode(mode)
        return (
            profiling,
            mode,
            torch._C._get_graph_executor_optimize(),
            torch._C._jit_can_fuse_on_cpu(),
            torch._C._jit_can_fuse_on_gpu(),
            torch._C._jit_texpr_fuser_enabled(),
        )

    before = settings()
    for name in ("ts", "ofi"):
        model = mlp().eval()
        compiled = harness.compile(model, registry.compiler(name))
        with torch.no_grad():
            for _ in range(4):
                compiled(torch.randn(3, 8))
        assert settings() == before
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("older_objects_frozen")
def test_compiled_code_goes_and_its_weights_with_it(harness: Harness) -> None:
    model = nn.Linear(64, 64).eval()
    weight = model.weight.detach()
    held = weight.untyped_storage()
    count = torch._C._storage_Use_Count if hasattr(torch._C, "_storage_Use_Count") else None
    if count is None:
        pytest.skip("this torch does not count the uses of a storage")
    before = count(held._cdata)
    compiled = harness.compile(model, registry.compiler("ts"))
    with torch.no_grad():
        compiled(torch.randn(2, 64))
    assert count(held._cdata) > before
    del compiled
    torch._dynamo.reset()
    gc.collect()
    assert count(held._cdata) == before


def test_a_lower_precision_is_torchs_autocast_in_partitions() -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 8)).eval()
    compiled = dynamo_ext.optimize("ts:bf16")(model)
    x = torch.randn(16, 64)
    with torch.no_grad():
        for _ in range(2):
            found, exact = compiled(x), model(x)
            assert found.dtype is torch.float32
            assert 1e-4 < float((found - exact).norm() / exact.norm()) < 0.05
            # Casts of weights are made again when these change.
            model[0].weight.mul_(2)
    report = compiled.report()
    assert report.fallbacks == ()
    [graph] = report.graphs
    assert [part.engine for part in graph.partitions] == ["ts"]
    assert graph.lowered == 2 * 16 * (64 * 32 + 32 * 8)
