"""What stands between an engine and the caller gets something wrong: the result is eager's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

from dynamo_ext.backends.pipeline import compilation, input_views
from dynamo_ext.backends.pipeline.calls import graph_call
from dynamo_ext.backends.undo import Undo
from tests.capture.live import live

if TYPE_CHECKING:
    from collections.abc import Callable

X = torch.ones(4, 3)


def changed_and_viewed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x[1:].mul_(2)
    return y, y.t(), x.sum(0)


def changed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x.mul_(2).sum(0),)


def viewed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x[1:], x[1:].t(), x.sum(0)


def of_a_result(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.sin()
    return y, y[1:], x.cos()


def no_view(outputs: Any, x: torch.Tensor) -> Any:
    del x
    return outputs[0], outputs[1].clone(), outputs[2]


def other_offset(outputs: Any, x: torch.Tensor) -> Any:
    # Rows 1 to 3 have the same numbers.
    return outputs[0], x.as_strided((3, 3), (1, 2), 4), outputs[2]


def other_strides(outputs: Any, x: torch.Tensor) -> Any:
    return outputs[0], x.as_strided((3, 3), (3, 1), 3), outputs[2]


def other_values(outputs: Any, x: torch.Tensor) -> Any:
    del x
    return *outputs[:-1], outputs[-1] + 1


def input_changed_twice(outputs: Any, x: torch.Tensor) -> Any:
    x[-1].mul_(2)
    return outputs


def input_left(outputs: Any, x: torch.Tensor) -> Any:
    x.div_(2)
    return outputs


FAULTS = [
    (changed_and_viewed, no_view),
    (changed_and_viewed, other_offset),
    (changed_and_viewed, other_strides),
    (changed_and_viewed, other_values),
    (changed_and_viewed, input_changed_twice),
    (changed, other_values),
    (changed, input_left),
    (changed, input_changed_twice),
    (viewed, no_view),
    (viewed, other_strides),
    (viewed, other_values),
    (of_a_result, no_view),
]


def planted(monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any], *, symbols: bool) -> None:
    """Compiled code finishes its results by ``fault``: all of it, or that with symbolic sizes."""

    def apart(graph: Any, compile_rest: Any) -> Any:
        compiled = input_views.apart(graph, compile_rest)
        inputs = [node.meta["example_value"] for node in graph.graph.find_nodes(op="placeholder")]
        if symbols and not any(isinstance(value, torch.SymInt) for value in inputs):
            return compiled

        def call(*args: Any) -> Any:
            (x,) = (arg for arg in args if isinstance(arg, torch.Tensor))
            return fault(tuple(compiled(*args)), x)

        return call

    monkeypatch.setattr(compilation, "apart", apart)


def told(results: Any, x: torch.Tensor) -> list[Any]:
    """The numbers of results and input, and where in memory the results are."""
    tensors = (x, *results)
    owners = [each.untyped_storage().data_ptr() for each in tensors]
    return [
        (each.tolist(), owners.index(owner), each.stride(), each.storage_offset())
        for each, owner in zip(tensors, owners, strict=True)
    ]


@pytest.mark.parametrize(("function", "fault"), FAULTS)
def test_a_wrong_result_is_eagers_in_the_end(
    harness: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch, function: Any, fault: Any
) -> None:
    planted(monkeypatch, fault, symbols=False)
    compiled = harness.compile(function, scripted)
    for _ in range(2):
        mine, theirs = X.clone(), X.clone()
        assert told(compiled(mine), mine) == told(function(theirs), theirs)
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope, fallback.count) == ("verify", "graph", 1)
    assert set(harness.engines) == {"eager"}


@pytest.mark.parametrize(("function", "fault"), FAULTS[:3])
def test_code_for_other_sizes_is_checked_at_its_own_first_call(
    harness: Any, scripted_dynamic: Any, monkeypatch: pytest.MonkeyPatch, function: Any, fault: Any
) -> None:
    planted(monkeypatch, fault, symbols=True)
    compiled = harness.compile(function, scripted_dynamic)
    for rows, stages in ((4, []), (4, []), (5, ["verify"]), (6, ["verify"])):
        mine, theirs = torch.ones(rows, 3), torch.ones(rows, 3)
        assert told(compiled(mine), mine) == told(function(theirs), theirs)
        assert harness.stages == stages


@pytest.mark.parametrize("function", [changed_and_viewed, changed, viewed, of_a_result])
def test_later_calls_are_the_engines(harness: Any, scripted: Any, function: Any) -> None:
    compiled = harness.compile(function, scripted)
    for _ in range(3):
        mine, theirs = X.clone(), X.clone()
        assert told(compiled(mine), mine) == told(function(theirs), theirs)
    assert not harness.stages
    assert scripted.runs == 3


def forbidden(*_: Any, **__: Any) -> Any:
    pytest.fail("There is nothing to check.")


def test_nothing_is_checked_where_the_caller_gets_what_the_engine_gives(
    harness: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "GraphCheck", forbidden)
    compiled = harness.compile(lambda x: (x.sin().relu_().mul_(2), x.cos() @ x.t()), scripted)
    for _ in range(2):
        compiled(X)
    unchecked = harness.compile(changed_and_viewed, scripted, {"verify": False})
    unchecked(X.clone())
    assert scripted.runs == 3
    assert not harness.stages


def test_of_two_that_round_the_engine_is_kept(harness: Any, scripted: Any) -> None:
    def cancelled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.add_(1), (x * 1e4 + 1 / 3) - x * 1e4

    def exactly(outputs: list[Any]) -> list[Any]:
        return [torch.full_like(o, 1 / 3) if float(o.max()) < 1 else o for o in outputs]

    scripted.change = exactly
    x = torch.linspace(1, 2, 300)
    found = harness.compile(cancelled, scripted)(x)
    assert torch.equal(found[1], torch.full((300,), 1 / 3))
    assert torch.equal(x, torch.linspace(1, 2, 300) + 1)
    assert not harness.stages


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_statistics_of_a_norm_are_compared(
    harness: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    norms = [torch.nn.BatchNorm1d(3) for _ in range(2)]

    def fault(outputs: Any, x: torch.Tensor) -> Any:
        del x
        norms[0].running_mean.add_(1)
        return outputs

    def apart(graph: Any, compile_rest: Any) -> Any:
        compiled = input_views.apart(graph, compile_rest)
        return lambda *args: fault(compiled(*args), args[0])

    monkeypatch.setattr(compilation, "apart", apart)
    x = torch.randn(8, 3)
    found, expected = harness.compile(norms[0], scripted)(x), norms[1](x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(norms[0].state_dict(), norms[1].state_dict())
    found.sum().backward()
    assert norms[0].bias.grad is not None
    assert harness.stages == ["verify"]


class Frames:
    """The functions that are entered within each other, as ``sys.setprofile`` tells them."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.deepest: list[str] = []

    def __call__(self, frame: Any, event: str, _: object) -> None:
        if event == "call":
            self.entered.append(frame.f_code.co_qualname)
            self.deepest = max(self.deepest, list(self.entered), key=len)
        elif event == "return" and self.entered:
            self.entered.pop()


def nested(call: Callable[[], object], start: str, end: str) -> list[str]:
    """The functions between two that a call enters within each other."""
    for _ in range(3):
        call()
    frames = Frames()
    sys.setprofile(frames)
    try:
        call()
    finally:
        sys.setprofile(None)
    names = frames.deepest
    return names[names.index(start) + 1 : names.index(end) + 1]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="counts the frames of Python 3.11")
def test_a_steady_call_passes_few_functions_on_its_way_to_the_engine() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    compiled = torch.compile(network, backend="dx_onnxrt", options={"min_partition": 1})
    x = torch.randn(3, 4)
    with torch.no_grad():
        names = nested(lambda: compiled(x), "DisableContext.__call__.<locals>._fn", "Session.run")
    assert names[-2:] == ["Runner.call", "Session.run"]
    assert len(names) <= 5, names


def test_what_an_optimizers_first_step_changes_is_kept_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[int] = []

    class Counted(Undo):
        def __init__(self, values: Any, **more: Any) -> None:
            kept.append(len(values))
            super().__init__(values, **more)

    monkeypatch.setattr(graph_call, "Undo", Counted)
    network = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(network.parameters())
    with live() as cells:
        cells.names.update(network=network, optimizer=optimizer, x=torch.randn(2, 4))
        cells.well("network(x).sum().backward()")
        cells.well("%%dynamo -b inductor\noptimizer.step()")
    assert len(kept) == 1
