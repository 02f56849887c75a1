"""OpenVINO against eager, on a zoo of inputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import openvino as module
from dynamo_ext.backends import openvino_session, registry, trial, tvm
from dynamo_ext.backends.base import Support
from tests.backends.engine_zoo import ZOO as COMMON
from tests.backends.engine_zoo import (
    mlp,
    node_of,
    same,
)
from tests.backends.own_process import silent

Harness = Any
F = nn.functional


def openvino(**options: Any) -> Any:
    return registry.compiler("openvino", options)


@pytest.mark.parametrize("name", ["float32", "norms", "attention", "alpha", "bfloat16"])
def test_what_it_should_take_it_takes_whole(harness: Harness, name: str) -> None:
    fn, args = COMMON[name]
    with torch.no_grad():
        harness.compile(fn, openvino())(*args)
    assert set(harness.engines) == {"openvino"}
    assert harness.journal.normalised == harness.engines["openvino"]


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


def test_torch_keeps_its_state_and_the_user_an_empty_screen() -> None:
    silent("""
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
""")


REFUSED: dict[str, tuple[Any, torch.Tensor, tuple[Any, ...], str]] = {
    "complex64": (torch.ops.aten.sin.default, torch.randn(3) * 1j, (), "not compute complex64"),
    "float64": (torch.ops.aten.sin.default, torch.randn(3).double(), (), "not compute float64"),
    "int64": (torch.ops.aten.mul.Tensor, torch.arange(3), (3,), "not compute int64"),
    "strides": (torch.ops.aten.as_strided.default, torch.randn(4), ((2,), (2,)), "memory"),
    "sign of NaN": (torch.ops.aten.sign.default, torch.randn(3), (), "NaN values"),
    "unknown": (torch.ops.aten.frac.default, torch.randn(3), (), "frac"),
}


def test_copying_into_a_tensor_without_dimensions_does_not_end_the_process() -> None:
    silent("""
import torch
from dynamo_ext.backends import registry
def fn(x):
    y, n = torch.zeros(2), torch.zeros(())
    y[0] = x.sum()
    n.copy_(x.mean())
    return y * 2, n + 1
x = torch.randn(3)
run = torch.compile(fn, backend=registry.compiler("openvino", {"min_partition": 1}))
with torch.no_grad():
    torch.testing.assert_close(run(x), fn(x))
""")


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
    monkeypatch.setattr(trial, "disagreement", lambda *_, **__: pytest.fail("asked twice"))
    assert backend.supports(node).supported


def test_infinity_is_tried_where_other_engines_are_excused(monkeypatch: Any) -> None:
    # What torch's own kernel answers there differs by processor, so that is not asked here.
    node = node_of(torch.ops.aten.gelu.default, torch.randn(7, 11))
    monkeypatch.setattr(tvm._answers, "_known", {})
    tried: list[str] = []
    made = trial._made

    def spy(shape: Any, kind: Any, name: str, *rest: Any) -> torch.Tensor:
        tried.append(name)
        return made(shape, kind, name, *rest)

    monkeypatch.setattr(trial, "_made", spy)
    monkeypatch.setattr(trial.verify, "disagreement", lambda *_, **__: "")
    assert module.OpenVinoBackend().supports(node).supported
    assert "infinite" in tried
    tried.clear()
    registry.get("tvm").supports(node)
    assert tried
    assert "infinite" not in tried


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
        (lambda x: x.any(), (torch.full((3,), torch.nan),)),
    ],
)
def test_what_the_operator_sweep_found_is_right_without_verification(
    harness: Any, fn: Any, inputs: tuple[torch.Tensor, ...]
) -> None:
    compiler = registry.compiler("openvino", {"verify": False, "min_partition": 1})
    with torch.no_grad():
        compiled = harness.compile(fn, compiler)
        torch.testing.assert_close(compiled(*inputs), fn(*inputs), equal_nan=True)
