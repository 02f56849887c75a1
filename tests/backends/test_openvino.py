"""OpenVINO against eager, on a zoo of inputs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import openvino as module
from dynamo_ext.backends import openvino_session, openvino_trial, registry
from dynamo_ext.backends.base import Support

Harness = Any
F = nn.functional


def openvino(**options: Any) -> Any:
    return registry.compiler("openvino", options)


class Attention(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.mix = nn.MultiheadAttention(width, 2, batch_first=True)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        x = x + self.mix(y, y, y, need_weights=False)[0]
        return x + self.wide(self.second(x))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.cell(x)[0][:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).eval()


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 5),
    ).eval()  # fmt: skip


def twice(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.exp() + 1
    return y, y, y.clone(), y.view(-1)


def inplace(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0] = 5
    y.mul_(2).add_(x)
    return y


def views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    return y.t(), y[0], y.reshape(-1), x.t(), y[:, -1] + 1, y[-2:]


ZOO: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "float32": (lambda x: (x @ x.t()).softmax(-1), (torch.randn(4, 4),)),
    "float64": (lambda x: x.cos() * 2 + x.mean(), (torch.randn(4, 4, dtype=torch.float64),)),
    "float16": (lambda x: torch.relu(x @ x) + 1, (torch.randn(4, 4).half(),)),
    "bfloat16": (lambda x: torch.relu(x @ x) + 1, (torch.randn(4, 4).bfloat16(),)),
    "int64": (lambda x: x * 3 // 2 - x.sum(), (torch.arange(-5, 7),)),
    "overflow": (lambda x: x * x + x, (torch.tensor([2**40, -3, 2**31]),)),
    "int32": (lambda x: (x + 1) * x, (torch.tensor([2**31 - 1, 2**24 + 1, -7]).int(),)),
    "uint8": (lambda x: x.float() / 255, (torch.arange(250, 256, dtype=torch.uint8),)),
    "bool": (lambda x, y: (x & ~y) | y, (torch.tensor([True, False]), torch.tensor([True, True]))),
    "comparison": (lambda x: torch.where(x > 0, x, -1.0), (torch.randn(5),)),
    "mixed": (lambda x, i: x * i + 1.5, (torch.randn(4), torch.arange(4))),
    "complex": (lambda x: (x * 1j).real + 1, (torch.randn(4),)),
    "zero-dim": (lambda x: x * x + 1, (torch.tensor(3.0),)),
    "empty": (lambda x: torch.cat([x * 2, x]), (torch.empty(0, 4),)),
    "empty-sum": (lambda x: x.sum(0) + 1, (torch.empty(0, 4),)),
    "strided": (lambda x: x.exp() + x, (torch.randn(6, 8)[::2, 1::3],)),
    "transposed": (lambda x: x.exp() + x, (torch.randn(4, 6).t(),)),
    "expanded": (lambda x: x.exp() + x, (torch.randn(4, 1).expand(4, 6),)),
    "channels-last": (
        lambda x: torch.relu(x) + 1,
        (torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),),
    ),
    "alpha": (
        lambda x: torch.add(x, x.exp(), alpha=2) - torch.sub(x, 1, alpha=3),
        (torch.randn(4),),
    ),
    "twice": (twice, (torch.randn(3),)),
    "number": (lambda x, k: (x * k, k, None, x), (torch.randn(3), 4)),
    "returned": (lambda x: (x, x + 1), (torch.randn(3),)),
    "identity": (lambda x: x, (torch.randn(3),)),
    "copied": (lambda x: (x.clone(), x * 1, x + 0), (torch.randn(3),)),
    "constants": (lambda x: (torch.full((2, 2), 3.0), x.new_ones(3)), (torch.randn(3),)),
    "views": (views, (torch.randn(3, 3),)),
    "inplace": (inplace, (torch.randn(3, 3),)),
    "gather": (lambda x, i: x.gather(1, i), (torch.randn(3, 3), torch.tensor([[0, 2], [1, 0]]))),
    "index": (lambda x, i: x[i], (torch.randn(5, 3), torch.tensor([-1, 0, 4]))),
    "mask": (lambda x: x.masked_fill(x > 0, 0.0), (torch.randn(5),)),
    "topk": (lambda x: torch.topk(x, 2), (torch.randn(3, 7),)),
    "sort": (lambda x: torch.sort(x, dim=-1), (torch.randn(3, 7),)),
    "kthvalue": (lambda x: torch.kthvalue(x, 2), (torch.randn(3, 7),)),
    "cumsum": (lambda x: x.cumsum(1) + 1, (torch.randn(3, 7),)),
    "split": (lambda x: x.split(2, 1), (torch.randn(3, 6),)),
    "norms": (lambda x: F.layer_norm(x, (6,)), (torch.randn(3, 6),)),
    "pad": (lambda x: F.pad(x, (1, 2)) * 2, (torch.randn(3, 6),)),
    "reflect": (lambda x: F.pad(x, (1, 2), mode="reflect") * 2, (torch.randn(1, 3, 6),)),
    "var": (lambda x: x.var(1) + x.std(1), (torch.randn(3, 6),)),
    "interpolate": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        (torch.randn(1, 2, 4, 4),),
    ),
    "attention": (
        lambda q: F.scaled_dot_product_attention(q, q, q).contiguous(),
        (torch.randn(1, 2, 5, 8),),
    ),
    "causal": (
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True).contiguous(),
        (torch.randn(1, 2, 5, 8),),
    ),
    "masked row": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m).contiguous() + 1,
        (torch.randn(1, 2, 3, 8), torch.zeros(3, 3).bool()),
    ),
    "nan": (
        lambda x: (torch.relu(x), x.clamp(-1, 1), x.log() + 1),
        (torch.tensor([torch.nan, -1.0, 0.0, 1.0, torch.inf]),),
    ),
    "nan in a window": (
        lambda x: F.max_pool2d(torch.relu(x), 2, padding=1) + 1,
        (torch.tensor([torch.nan, *range(15)]).reshape(1, 1, 4, 4),),
    ),
}


def same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    elif isinstance(expected, torch.Tensor):
        loose = expected.dtype in (torch.float16, torch.bfloat16)
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if loose else {"rtol": 1e-4, "atol": 1e-5}
        exact = not expected.is_floating_point() and not expected.is_complex()
        tolerance = {"rtol": 0, "atol": 0} if exact else tolerance
        torch.testing.assert_close(found, expected, equal_nan=True, **tolerance)
        assert found.stride() == expected.stride()
    else:
        assert found == expected


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_gives_what_eager_gives(harness: Harness, name: str) -> None:
    fn, args = ZOO[name]
    compiled = harness.compile(fn, openvino(verify=False, min_partition=1))
    with torch.no_grad():
        expected = fn(*args)
        for _ in range(3):
            same(compiled(*args), expected)
    assert set(harness.stages) <= {"unsupported"}


@pytest.mark.parametrize("name", ["float32", "norms", "attention", "alpha", "bfloat16"])
def test_what_it_should_take_it_takes_whole(harness: Harness, name: str) -> None:
    fn, args = ZOO[name]
    with torch.no_grad():
        harness.compile(fn, openvino())(*args)
    assert set(harness.engines) == {"openvino"}
    assert harness.journal.normalised == harness.engines["openvino"]


MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp": (mlp, (3, 8)),
    "cnn": (cnn, (2, 3, 8, 8)),
    "attention": (Attention, (2, 5, 16)),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_run_in_one_part_and_follow_their_weights(harness: Harness, name: str) -> None:
    make, shape = MODELS[name]
    model = make().eval()
    compiled = harness.compile(model, openvino())
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(shape)
            same(compiled(x), model(x))
        for parameter in model.parameters():
            parameter.mul_(1.5)
        for _ in range(2):
            x = torch.randn(shape)
            same(compiled(x), model(x))
    assert set(harness.engines) == {"openvino"}
    assert not harness.stages


def test_an_lstm(harness: Harness) -> None:
    model = Recurrent().eval()
    with torch._dynamo.config.patch(allow_rnn=True), torch.no_grad():
        compiled = harness.compile(model, openvino())
        for _ in range(2):
            x = torch.randn(2, 5, 8)
            same(compiled(x), model(x))
    assert set(harness.stages) <= {"unsupported"}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
def test_gradients(harness: Harness, name: str, train: Any) -> None:
    make, shape = MODELS[name]
    model, twin = make().train(train), make().train(train)
    twin.load_state_dict(model.state_dict())
    compiled = harness.compile(model, openvino())
    for _ in range(2):
        x = torch.randn(shape)
        for each in (compiled, twin):
            each(x).square().mean().backward()
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-5)
    for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert set(harness.stages) <= {"unsupported"}
    assert harness.engines["openvino"]


def test_ten_steps_follow_eager(harness: Harness) -> None:
    losses = []
    for engine in (None, openvino()):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 1))
        step = torch.optim.SGD(model.parameters(), lr=0.1)
        run = harness.compile(model, engine) if engine else model
        curve = []
        for _ in range(10):
            loss = (run(torch.randn(4, 8)) - 1).square().mean()
            step.zero_grad()
            loss.backward()
            step.step()
            curve.append(loss.item())
        losses.append(curve)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_each_shape_has_its_engine(harness: Harness) -> None:
    model = mlp()
    compiled = harness.compile(model, openvino(), dynamic=True)
    with torch.no_grad():
        for batch in (3, 5, 64, 3):
            x = torch.randn(batch, 8)
            same(compiled(x), model(x))
    (partition,) = harness.journal.partitions.values()
    assert (partition.engine, partition.engines_built) == ("openvino", 3)


def lowered(fn: Any, example: torch.Tensor) -> Any:
    graph = torch.fx.symbolic_trace(fn)
    for node in graph.graph.nodes:
        node.meta["val"] = example
    return registry.get("openvino").lower(graph, [example], {})


@pytest.mark.parametrize(("size", "lent"), [(2048, 3), (32, 2)])
def test_inputs_are_lent_and_outputs_owned(
    monkeypatch: pytest.MonkeyPatch, size: int, lent: int
) -> None:
    """Each output of some KiB is lent; the place of a smaller one is lent once, and copied."""
    seen = []
    lend = openvino_session.lend

    def spy(tensor: torch.Tensor) -> Any:
        value = lend(tensor)
        seen.append(value.data.ctypes.data == tensor.data_ptr())
        return value

    monkeypatch.setattr(openvino_session, "lend", spy)
    example = torch.randn(size)
    run = lowered(lambda x: (torch.ops.aten.mul.Tensor(x, x),), example)
    (first,), (second,) = run(example), run(example)
    # The input lies where it lay, so it is lent once; each output is a tensor of its own.
    assert seen == [True] * lent
    assert first.data_ptr() != second.data_ptr()
    kept = first.clone()
    run(torch.zeros(size))
    torch.testing.assert_close(first, kept)
    first.add_(1)
    torch.testing.assert_close(second, kept)
    torch.testing.assert_close(second, example * example)


def test_another_tensor_at_the_same_address_is_read_anew() -> None:
    run = lowered(lambda x: (torch.ops.aten.mul.Tensor(x, x),), torch.randn(32))
    addresses = set()
    for number in range(200):
        x = torch.full((32,), float(number))
        addresses.add(x.data_ptr())
        assert torch.equal(run(x)[0], x * x)
        x.add_(1)
        assert torch.equal(run(x)[0], x * x)
        del x
    assert len(addresses) < 200


def test_a_session_forgets_addresses_beyond_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_session, "MOST_ADDRESSES", 2)
    run = lowered(lambda x: (torch.ops.aten.mul.Tensor(x, x),), torch.randn(32))
    tensors = [torch.randn(32) for _ in range(7)]
    for x in [*tensors, *reversed(tensors)]:
        assert torch.equal(run(x)[0], x * x)


def test_two_threads_share_an_engine() -> None:
    example = torch.randn(64)
    run = lowered(lambda x: (torch.ops.aten.mul.Tensor(x, x),), example)
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


def test_torch_keeps_its_state_and_the_user_an_empty_screen() -> None:
    script = """
import torch, torch._dynamo
from torch import nn
def state():
    c = torch._dynamo.config
    return (torch.get_num_threads(), torch.get_num_interop_threads(), c.save_config(),
            torch.get_rng_state().sum().item(), torch.get_default_dtype(),
            sorted(__import__("os").sched_getaffinity(0)) if hasattr(__import__("os"), "sched_getaffinity") else 0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)).eval()
x = torch.randn(2, 8)
before = state()
from dynamo_ext.backends import registry
with torch.no_grad():
    torch.compile(model, backend=registry.compiler("openvino"))(x)
assert state() == before
import sys
assert "openvino" in sys.modules and "openvino.torch" not in sys.modules
assert "openvino_telemetry" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def node_of(op: Any, value: torch.Tensor, *rest: Any) -> torch.fx.Node:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = value
    y = graph.call_function(op, (x, *rest))
    y.meta["val"] = op(value, *rest)
    return y


REFUSED: dict[str, tuple[Any, torch.Tensor, tuple[Any, ...], str]] = {
    "complex64": (torch.ops.aten.sin.default, torch.randn(3) * 1j, (), "not compute complex64"),
    "float64": (torch.ops.aten.sin.default, torch.randn(3).double(), (), "not compute float64"),
    "int64": (torch.ops.aten.mul.Tensor, torch.arange(3), (3,), "not compute int64"),
    "strides": (torch.ops.aten.as_strided.default, torch.randn(4), ((2,), (2,)), "memory"),
    "sign of NaN": (torch.ops.aten.sign.default, torch.randn(3), (), "NaN values"),
    "unknown": (torch.ops.aten.frac.default, torch.randn(3), (), "frac"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_refuses_and_why(name: str) -> None:
    op, value, rest, reason = REFUSED[name]
    answer = registry.get("openvino").supports(node_of(op, value, *rest))
    assert not answer
    assert reason in answer.reason


def test_a_trial_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = module.OpenVinoBackend()
    node = node_of(torch.ops.aten.exp.default, torch.randn(3))
    state = torch.get_rng_state()
    assert backend.supports(node) == Support(supported=True)
    assert torch.equal(torch.get_rng_state(), state)
    monkeypatch.setattr(openvino_trial, "disagreement", lambda _: pytest.fail("asked twice"))
    assert backend.supports(node).supported


def test_probe_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = registry.get("openvino").probe()
    assert (found.available, found.device) == (True, "cpu")
    monkeypatch.setattr(openvino_session, "devices", list)
    assert "no CPU plugin" in registry.get("openvino").probe().reason
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _: None)
    answer = registry.get("openvino").probe()
    assert not answer.available
    assert answer.remedy == 'pip install "dynamo-ext[openvino]"'


def test_options_reach_the_engine(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    compile_model = openvino_session.compiled
    monkeypatch.setattr(
        openvino_session,
        "compiled",
        lambda model, options: seen.append(options.get("threads")) or compile_model(model, options),
    )
    model, x = mlp(), torch.randn(2, 8)
    with torch.no_grad():
        same(harness.compile(model, openvino(threads="1", freeze="false"))(x), model(x))
    (partition,) = harness.journal.partitions.values()
    assert partition.frozen == 0
    assert seen[-1] == 1


@pytest.mark.parametrize(
    ("fn", "inputs"),
    [
        (torch.heaviside, (torch.zeros(0), torch.ones(1))),
        (torch.heaviside, (torch.ones(3, 0), torch.ones(3, 1))),
        (lambda x: torch.fmod(x, 1.5), (torch.tensor([1e10, -2.5]),)),
        (lambda x: torch.remainder(x, -1.5), (torch.tensor([1e10, -2.5]),)),
        (lambda x: torch.atan2(x * 0, x), (torch.tensor([-1.0, 1.0, -2.0]),)),
    ],
)
def test_what_the_operator_sweep_found_is_right_without_verification(
    harness: Any, fn: Any, inputs: tuple[torch.Tensor, ...]
) -> None:
    compiler = registry.compiler("openvino", {"verify": False, "min_partition": 1})
    with torch.no_grad():
        compiled = harness.compile(fn, compiler)
        torch.testing.assert_close(compiled(*inputs), fn(*inputs), equal_nan=True)
