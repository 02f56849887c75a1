"""Modules under ``optimize``, copied and pickled: optimized again, with nothing shared."""

from __future__ import annotations

import copy
import io
import pickle
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.errors import OptionError

X = torch.arange(6.0).reshape(2, 3)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x).relu() + 1


class Outer(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * 2


def plain(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend of a user's own."""
    return graph.forward


def saved(module: Any) -> Any:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS = pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), saved]
)


def nudge(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(1)


@WAYS
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("backend", ["eager", "onnxrt"])
def test_a_copy_is_optimized_and_shares_nothing(again: Any, backend: str, *, used: bool) -> None:
    if backend == "onnxrt":
        pytest.importorskip("onnxruntime")
    net = Net().eval()
    fast = dynamo_ext.optimize(backend)(net)
    with torch.no_grad():
        if used:
            fast(X)
        before = fast.report()
        other = again(fast)
        assert type(other) is type(fast)
        assert list(other.state_dict()) == list(fast.state_dict())
        assert all(map(torch.equal, other.state_dict().values(), fast.state_dict().values()))
        assert other.report().graphs == ()
        expected = net(X)
        torch.testing.assert_close(other(X), expected)
        assert other.report().backend == backend
        assert sum(graph.calls for graph in other.report().graphs) == 1
        assert sum(g.calls for g in fast.report().graphs) == sum(g.calls for g in before.graphs)
        nudge(other)
        torch.testing.assert_close(fast(X), expected)
        torch.testing.assert_close(other(X), other._orig_mod(X))
        assert not torch.allclose(other(X), expected)
        third = again(other)
        torch.testing.assert_close(third(X), other(X))
        assert third.report().graphs


@WAYS
def test_a_module_that_holds_an_optimized_one(again: Any) -> None:
    outer = Outer(dynamo_ext.optimize("eager")(Net()))
    outer(X)
    other = again(outer)
    assert other.inner._orig_mod is not outer.inner._orig_mod
    assert torch.equal(other(X), outer(X))
    assert len(other.inner.report().graphs) == 1
    nudge(other)
    assert not torch.equal(other(X), outer(X))


def test_shared_weights_stay_shared_within_a_copy() -> None:
    net = Net()
    other = copy.deepcopy(torch.nn.ModuleList([net, dynamo_ext.optimize("eager")(net)]))
    assert other[1]._orig_mod is other[0]


def test_torch_compile_sees_through_one() -> None:
    outer = Outer(copy.deepcopy(dynamo_ext.optimize("eager")(Net())))
    torch._dynamo.reset()
    compiled = torch.compile(outer, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), outer(X))


@WAYS
def test_the_settings_go_along(again: Any) -> None:
    asked = {"dynamic": True, "fullgraph": True, "options": {"verify": "no"}}
    other = again(dynamo_ext.optimize("aot_eager", **asked)(Net()))
    for rows in (2, 3, 4):
        other(torch.ones(rows, 3))
    report = other.report()
    assert (report.backend, len(report.graphs)) == ("aot_eager", 1)
    tracer = other.dynamo_ctx.__self__._make_tracer()
    assert tracer.fullgraph
    assert tracer.compiler.compiler.options["verify"] is False


@WAYS
def test_a_module_under_run(again: Any, compiles: list[str]) -> None:
    net = Net()
    dynamo_ext.optimize("eager")(net)(X)
    seen = len(compiles)
    other = again(dynamo_ext.run()(net))
    assert torch.equal(other(X), net(X))
    assert other.report().mode == "run"
    assert len(compiles) == seen


@WAYS
def test_a_module_with_a_way_of_its_own_to_be_copied(again: Any) -> None:
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 2)))
    other = again(dynamo_ext.optimize("eager")(traced))
    assert torch.equal(other(X), traced(X))
    assert other.report().graphs


@WAYS
def test_a_function_as_the_backend(again: Any) -> None:
    fast = dynamo_ext.optimize(plain)(Net())
    other = again(fast)
    assert torch.equal(other(X), fast(X))
    assert other.report().backend == "plain"


def test_a_function_that_cannot_be_pickled() -> None:
    lock = threading.Lock()

    def local(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        with lock:
            return graph.forward

    fast = dynamo_ext.optimize(local)(Net())
    assert torch.equal(copy.deepcopy(fast)(X), fast(X))
    for write in (pickle.dumps, saved):
        with pytest.raises(OptionError, match=r"backend local cannot be pickled.*by its name\."):
            write(fast)


def test_a_copy_goes_with_its_last_reference() -> None:
    fast = dynamo_ext.optimize("eager")(Net())
    gone = weakref.ref(copy.deepcopy(fast))
    assert gone() is None
