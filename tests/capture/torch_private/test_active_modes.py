"""Compiled code under tools that observe each operation: tracers, exporters, modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import dynamo_ext
from dynamo_ext.analysis.advice import advise
from dynamo_ext.capture.torch_private import active_modes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.capture.live import Live

X, OTHER = torch.randn(5, 8), torch.randn(5, 8)
ENGINES = ["aot_eager", "onnxrt", "tvm", "inductor"]


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


def available(backend: str) -> str:
    needed = {"onnxrt": "onnxruntime", "tvm": "tvm"}.get(backend, "torch")
    pytest.importorskip(needed)
    return backend


def made_by_fx(model: Any) -> Any:
    return make_fx(model)(X)


def made_by_jit(model: Any) -> Any:
    return torch.jit.trace(model, (X,), check_trace=False)  # type: ignore[no-untyped-call]


def made_by_export(model: Any) -> Any:
    return torch.export.export(model, (X,)).module()


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("first", [True, False], ids=["new", "compiled before"])
@pytest.mark.parametrize("trace", [made_by_fx, made_by_jit, made_by_export])
@pytest.mark.parametrize("backend", ["onnxrt", "inductor"])
def test_who_traces_gets_operations_and_no_constants(
    backend: str, trace: Callable[[Any], Any], first: Any
) -> None:
    model, fast = net(), dynamo_ext.optimize(available(backend))(net())
    if not first:
        fast(X)
    traced = trace(fast)
    torch.testing.assert_close(traced(OTHER), model(OTHER))
    [fallback] = fast.report().fallbacks
    assert "cannot observe operations" in fallback.message
    assert any(each.topic == "kept-out" for each in advise(fast.report()))
    # It is compiled all the same where nobody looks.
    torch.testing.assert_close(fast(OTHER), model(OTHER))
    assert fast.report().graphs


@pytest.mark.parametrize("backend", ENGINES)
def test_tensors_without_elements(backend: str) -> None:
    fast = dynamo_ext.optimize(available(backend))(net())
    plain = torch.compile(net(), backend=f"dx_{backend}")
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = mode.from_tensor(X)
        # Plain Inductor reads what is not there.
        for model in (fast, plain) if backend != "inductor" else (fast,):
            found = model(fake)
            assert isinstance(found, FakeTensor)
            assert found.shape == (5, 4)
    torch.testing.assert_close(fast(X), net()(X))
    torch.testing.assert_close(plain(X), net()(X))


@pytest.mark.filterwarnings("ignore:Using `torch.compile:UserWarning")
@pytest.mark.parametrize("first", [True, False], ids=["new", "compiled before"])
def test_flops_are_counted(first: Any) -> None:
    fast = dynamo_ext.optimize("aot_eager")(net())
    if not first:
        fast(X)
    with FlopCounterMode(display=False) as mode:
        fast(X)
    assert mode.get_total_flops() == 2 * 5 * (8 * 16 + 16 * 4)
    assert "FlopCounterMode" in fast.report().fallbacks[0].message


@pytest.mark.parametrize("backend", [*ENGINES, "eager", "ts"])
def test_a_checkpoint_around_a_compiled_module(backend: str) -> None:
    model, fast = net(), dynamo_ext.optimize(available(backend))(net())
    plain = torch.compile(net(), backend=f"dx_{backend}")
    for _ in range(2):
        wanted, *found = (
            _gradient(lambda x, each=each: checkpoint(each, x, use_reentrant=False))
            for each in (model, fast, plain)
        )
        for each in found:
            torch.testing.assert_close(each, wanted, rtol=1e-4, atol=1e-5)
    assert not [f for f in fast.report().fallbacks if f.stage == "run"]


def _gradient(run: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    x = X.clone().requires_grad_()
    run(x).sum().backward()
    assert x.grad is not None
    return x.grad


def test_a_cell_that_exports_a_model(cells: Live) -> None:
    cells.names["net"] = net()
    cells.names["X"] = X
    cells.well("%%dynamo -b aot_eager\ny = net(X)\ne = torch.export.export(net, (X,))")
    model = cells.names["e"].module()
    torch.testing.assert_close(model(OTHER), net()(OTHER))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own use of it
@pytest.mark.parametrize("first", [False, True], ids=["compiled before", "not compiled"])
@pytest.mark.parametrize("backend", ENGINES)
def test_forward_mode_has_tangents(backend: str, first: bool) -> None:
    model = net()
    fast = dynamo_ext.optimize(available(backend))(model)

    def tangent(function: Any) -> Any:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(function(forward_ad.make_dual(X, OTHER))).tangent

    with torch.no_grad():
        if not first:
            fast(X)
    torch.testing.assert_close(tangent(fast), tangent(model))
    assert "dual_level" in fast.report().fallbacks[0].message
    expected = torch.func.jvp(model, (X,), (OTHER,))
    torch.testing.assert_close(torch.func.jvp(fast, (X,), (OTHER,)), expected)
    torch.testing.assert_close(fast(X), model(X))
    assert fast.report().graphs


def test_a_mode_that_an_interrupted_trace_left_on_is_switched_off() -> None:
    lifting = torch._C._only_lift_cpu_tensors()

    def interrupted() -> None:
        with active_modes.ended_where_it_raises():
            FakeTensorMode().__enter__()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not active_modes.tracing_mode_active()
    assert torch._C._only_lift_cpu_tensors() == lifting
    assert (torch.ones(2) + 1).tolist() == [2, 2]
