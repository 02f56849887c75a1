"""Normalised graphs from disk: which compiles trace, and that results and reports are the same."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import nn

import dynamo_ext
from dynamo_ext.backends import disk_cache, registry
from dynamo_ext.backends.pipeline import normalisation
from dynamo_ext.errors import FallbackWarning
from tests import forks
from tests.backends.support.test_graph_text import twice

if TYPE_CHECKING:
    from pathlib import Path

X = torch.linspace(-1, 1, 12).view(3, 4)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.FOLDER, str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def traces(monkeypatch):
    """The graphs that AOTAutograd gets."""
    made = []
    compile_ = normalisation.aot.aot_compile

    def counted(graph, *rest):
        made.append(graph)
        return compile_(graph, *rest)

    monkeypatch.setattr(normalisation.aot, "aot_compile", counted)
    return made


def run(function, *inputs, backend="ts", grad=False):
    """Compile as in a process of its own, and compare with eager; what it gives, and the report."""
    torch.compiler.reset()
    compiled = dynamo_ext.optimize(backend)(function)
    with torch.set_grad_enabled(grad):
        expected, got = function(*inputs), compiled(*inputs)
        torch.testing.assert_close(got, expected)
    report = compiled.report()
    assert not [f for f in report.fallbacks if f.stage != "unsupported"]
    return got, report


def net(seed=0, width=8, norm=nn.LayerNorm):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, width), norm(width), nn.GELU(), nn.Linear(width, 2)).eval()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.MultiheadAttention(4, 2, batch_first=True)
        self.register_buffer("mask", torch.ones(3, 3).tril().bool())

    def forward(self, x):
        rows = x.expand(2, 3, 4)
        shift = torch.tensor([0.5, 1, 2, 3])
        found, _ = self.heads(rows, rows, rows, attn_mask=~self.mask, need_weights=False)
        return found + shift, found.argmax(-1)


def convolved(x):
    picture = x.view(1, 1, 3, 4).contiguous(memory_format=torch.channels_last)
    return F.max_pool2d(F.pad(picture, (1, 1, 1, 1)), 2).flatten(1)


def numbers(x):
    with torch.no_grad():
        positions = torch.arange(4) * 2 + 1
    return torch.where(x > 0, x * 3.25, float("-inf")).amax(0), torch.einsum(
        "ij,kj->ik", x, x
    ) + positions[0]


@pytest.mark.parametrize("backend", ["ts", "onnxrt", "openvino", "tvm", "xla"])
@pytest.mark.parametrize("made", [net, Attention, lambda: convolved, lambda: numbers])
def test_a_later_compile_does_not_trace_and_gives_the_same(traces, made, backend):
    if not registry.probe(registry.get(backend)).available:
        pytest.skip(f"no {backend}")
    first, before = run(made().eval() if isinstance(made, type) else made(), X, backend=backend)
    assert len(traces) == 1
    second, after = run(made().eval() if isinstance(made, type) else made(), X, backend=backend)
    assert len(traces) == 1
    if made is not Attention:
        torch.testing.assert_close(first, second, rtol=0, atol=0)
    for one, two in zip(before.graphs, after.graphs, strict=True):
        assert (one.normalised, one.folded) == (two.normalised, two.folded)
        facts = [
            [dataclasses.replace(p, lower_seconds=0.0, from_disk=False) for p in each.partitions]
            for each in (one, two)
        ]
        assert facts[0] == facts[1]


def test_other_weights_have_the_same_graph(traces):
    results = [run(net(seed), X)[0] for seed in range(3)]
    assert len(traces) == 1
    assert not torch.equal(results[0], results[1])


def scaled(by):
    return lambda x: torch.tanh(x * by) + torch.tensor([by, 1.0, 2.0, 3.0]) * x.sin()


OTHERS = {
    "width": lambda: run(net(width=9), X),
    "batch": lambda: run(net(), torch.ones(5, 4)),
    "strides": lambda: run(net(), X.t().contiguous().t()),
    "dtype": lambda: run(net().double(), X.double()),
    "operations": lambda: run(net(norm=nn.Identity), X),
    "number": lambda: run(scaled(2.5), X),
    "inputs": lambda: run(nn.Sequential(*net()).requires_grad_(False), X),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_other_graphs_have_entries_of_their_own(traces, other):
    run(net(), X)
    run(scaled(1.5), X)
    assert len(traces) == 2
    other()
    assert len(traces) == 3
    other()
    assert len(traces) == 3


def made_here(x):
    return x + torch.ones(4) + torch.arange(4.0)


@pytest.mark.parametrize(
    "setting",
    [
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.backends.mha.set_fastpath_enabled(False),
        lambda: setattr(torch.backends.opt_einsum, "enabled", False),
        lambda: torch.set_float32_matmul_precision("high"),
    ],
)
def test_settings_count(traces, setting, monkeypatch):
    run(made_here, X)
    monkeypatch.setattr(torch.backends.opt_einsum, "enabled", True)
    try:
        setting()
        run(made_here, X)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.backends.mha.set_fastpath_enabled(True)
        torch.set_float32_matmul_precision("highest")
    assert len(traces) == 2


def in_place(x, total):
    total.add_(x.sin().exp())
    return total * 2


def test_a_graph_that_changes_an_input_is_traced_each_time(traces):
    for _ in range(2):
        torch.compiler.reset()
        total = torch.zeros(3, 4)
        with torch.no_grad():
            dynamo_ext.optimize("ts")(in_place)(X, total)
        torch.testing.assert_close(total, X.sin().exp())
    assert len(traces) == 2
    assert normalisation.store().files() == []


def test_gradients_are_traced_each_time(traces):
    for _ in range(2):
        model = net()
        run(model, X, grad=True)
        torch.compiler.reset()
    assert len(traces) == 2
    assert normalisation.store().files() == []


def half_detached(model):
    def function(x):
        with torch.no_grad():
            found = model(x).sin()
        return found * 2

    return function


def test_where_gradients_are_on_a_graph_without_them_gives_none(traces):
    for seed in range(2):
        got, _ = run(half_detached(net(seed)), X, grad=True)
        assert not got.requires_grad
    assert len(traces) == 1


def test_under_autocast_it_is_traced_each_time(traces):
    for _ in range(2):
        torch.compiler.reset()
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            found = dynamo_ext.optimize("ts")(net())(X)
            torch.testing.assert_close(found, net()(X), atol=0.02, rtol=0.02)
    assert len(traces) == 2
    assert normalisation.store().files() == []


def test_an_operation_of_ones_own_is_traced_each_time(traces):
    for _ in range(2):
        run(lambda x: twice(x.sin().cos()).exp().sqrt(), X)
    assert len(traces) == 2
    assert normalisation.store().files() == []


def test_sizes_that_are_symbols_are_traced_each_time(traces):
    for _ in range(2):
        torch.compiler.reset()
        with torch.no_grad():
            dynamo_ext.optimize("onnxrt", dynamic=True)(net())(X)
    assert len(traces) == 2


def test_a_damaged_graph_is_traced_again(traces):
    run(net(), X)
    kept = normalisation.store()
    [(_, _, path)] = kept.files()
    kept.keep(path.name, b"[]\n{}")
    disk_cache._warned.clear()
    with pytest.warns(FallbackWarning, match="cannot be read"):
        run(net(), X)
    assert len(traces) == 2
    run(net(), X)
    assert len(traces) == 2


SCRIPT = """
import sys, torch, dynamo_ext
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).eval()
torch.nn.init.constant_(model[0].bias, {bias})
x = torch.linspace(-1, 1, 12).view(3, 4)
compiled = dynamo_ext.optimize("ts")(model)
with torch.no_grad():
    torch.testing.assert_close(compiled(x), model(x))
from torch._dynamo.utils import counters
print(counters["aot_autograd"]["total"])
"""


def test_a_later_process_does_not_trace(tmp_path):
    environment = forks.environment(DYNAMO_EXT_CACHE=str(tmp_path))
    said = [forks.run(SCRIPT.format(bias=bias), environment)[1] for bias in (0.0, 0.0, 1.0)]
    assert [each.strip() for each in said] == ["1", "0", "0"]
