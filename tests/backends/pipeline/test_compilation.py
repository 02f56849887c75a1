"""Every stage failing, and the user's result right all the same."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dynamo_ext
from dynamo_ext.backends.base import StayEager
from dynamo_ext.backends.pipeline.calls import shape_limit
from dynamo_ext.backends.pipeline.calls.graph_call import RUN_FAILURES
from dynamo_ext.backends.support.engine_store import EngineStore
from dynamo_ext.errors import FallbackWarning
from dynamo_ext.numerics import verdict


def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.sin() + x.cos()
    return y * 2, y.sum(0)


def check(compiled: Any, function: Any, *args: Any) -> None:
    found, expected = compiled(*args), function(*args)
    torch.testing.assert_close(found, expected)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()


X = torch.linspace(-1, 1, 12).reshape(3, 4)


def test_a_graph_goes_to_the_engine_whole(harness: Any, scripted: Any) -> None:
    check(harness.compile(fn, scripted), fn, X)
    (partition,) = harness.journal.partitions.values()
    assert (partition.engine, partition.operations, partition.reason) == ("scripted", 5, "")
    assert harness.journal.normalised == 5
    assert partition.targets[0] == "aten.sin.default"
    assert not harness.stages


X3 = torch.ones(3)
WRONG_NUMBERS: dict[str, tuple[Any, torch.Tensor, torch.Tensor]] = {
    "probability": (lambda p: nn.functional.binary_cross_entropy(p, X3), X3 / 2, X3 * 2),
    "index_add": (lambda i: X.index_add(0, i.long(), X), X3, -X3),
    "index_copy": (lambda i: X.index_copy(0, i.long(), X * 0), X3 * 2, -X3),
}


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_what_looks_at_its_numbers_goes_on_doing_so(
    harness: Any, scripted: Any, name: str, grad: Any
) -> None:
    function, right, wrong = WRONG_NUMBERS[name]
    compiled = harness.compile(function, scripted)
    for given in (right, wrong):
        given.requires_grad_(grad)
    with torch.set_grad_enabled(grad):
        check(compiled, function, right)
        with pytest.raises((RuntimeError, IndexError), match=r"between 0 and 1|out of bounds"):
            compiled(wrong)


@pytest.mark.parametrize(
    ("error", "stage", "said"),
    [
        (RuntimeError("no"), "lower", "no"),
        (MemoryError("full"), "lower", "full"),
        (AssertionError(), "lower", ""),
        (StayEager("Not worth it."), "unsupported", "Not worth it."),
        (StayEager(), "unsupported", "The backend leaves it to eager."),
    ],
)
def test_lower_fails(harness: Any, scripted: Any, error: Exception, stage: str, said: str) -> None:
    scripted.lower_error = lambda _: error
    compiled = harness.compile(fn, scripted)
    for _ in range(2):
        check(compiled, fn, X)
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope) == (stage, "partition")
    assert (fallback.subject, fallback.message) == ("inference", said)
    assert fallback.exception == (type(error).__name__ if stage == "lower" else "")
    assert harness.engines == {"eager": 5}
    assert len(scripted.lowered) == 1


def test_supports_fails(harness: Any, scripted: Any) -> None:
    scripted.supports_error = ValueError("what is this")
    check(harness.compile(fn, scripted), fn, X)
    assert set(harness.stages) == {"unsupported"}
    assert "ValueError: what is this" in next(iter(harness.journal.fallbacks.values())).message
    assert set(harness.engines) == {"eager"}


def test_nothing_supported_runs_the_captured_graph(harness: Any, scripted: Any) -> None:
    scripted.refuses = ("aten",)
    check(harness.compile(fn, scripted), fn, X)
    assert harness.engines == {"eager": 5}
    assert sum(f.count for f in harness.journal.fallbacks.values()) == 5
    (partition,) = harness.journal.partitions.values()
    assert partition.reason == "It was told to refuse this."


def test_the_first_run_fails(harness: Any, scripted: Any) -> None:
    scripted.run_error = lambda run: RuntimeError("cold") if run == 1 else None
    compiled = harness.compile(fn, scripted)
    for _ in range(3):
        check(compiled, fn, X)
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.message, fallback.count) == ("run", "cold", 1)
    assert harness.engines == {"scripted": 5}


def test_the_hundredth_run_fails_and_the_third_failure_is_the_last(
    harness: Any, scripted: Any
) -> None:
    scripted.run_error = lambda run: RuntimeError("tired") if run >= 100 else None
    compiled = harness.compile(fn, scripted)
    for _ in range(110):
        check(compiled, fn, X)
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.count) == ("run", RUN_FAILURES)
    assert scripted.runs == 99 + RUN_FAILURES
    assert harness.engines == {"eager": 5}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda o: [o[0] + 1, o[1]], "off"),
        (lambda o: [o[0], torch.full_like(o[1], torch.nan)], "NaN"),
        (lambda o: [o[0].double(), o[1]], "dtype"),
        (lambda o: [o[0][None], o[1]], "shape"),
        (lambda o: o[:1], "outputs"),
        (lambda o: [None, o[1]], "NoneType"),
    ],
)
def test_wrong_results_are_never_returned(
    harness: Any, scripted: Any, change: Any, word: str
) -> None:
    scripted.change = change
    compiled = harness.compile(fn, scripted)
    for _ in range(3):
        check(compiled, fn, X)
    (fallback,) = harness.journal.fallbacks.values()
    assert fallback.stage == "verify"
    assert word in fallback.message
    assert harness.engines == {"eager": 5}


def test_in_low_precision_an_engine_may_be_nearer_to_the_truth_than_eager(
    harness: Any, scripted: Any
) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(8, 32).bfloat16(), (torch.randn(32, 32) / 4).bfloat16()

    def deep(x: torch.Tensor) -> torch.Tensor:
        for _ in range(12):
            x = torch.tanh(x @ weight) * 1.5
        return x

    better = x.float()
    for _ in range(12):
        better = torch.tanh(better @ weight.float()) * 1.5
    assert verdict.disagreement([better.bfloat16()], [deep(x)])
    scripted.change = lambda _: [better.bfloat16()]
    compiled = harness.compile(deep, scripted)
    for _ in range(2):
        assert torch.equal(compiled(x), better.bfloat16())
    assert not harness.stages


def test_verify_can_be_left_out(harness: Any, scripted: Any) -> None:
    scripted.change = lambda o: [o[0] + 1, o[1]]
    compiled = harness.compile(fn, scripted, {"verify": False})
    torch.testing.assert_close(compiled(X)[0], fn(X)[0] + 1)
    assert scripted.runs == 1


def test_strides_are_those_of_eager(harness: Any, scripted: Any) -> None:
    def turn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x * 2).t() + 1, x + 1

    scripted.change = lambda o: [v.contiguous() for v in o]
    compiled = harness.compile(turn, scripted)
    for _ in range(3):
        found, expected = compiled(X.t()), turn(X.t())
        assert [v.stride() for v in found] == [v.stride() for v in expected]
        torch.testing.assert_close(found, expected)
    assert not harness.stages


def test_the_users_own_error_is_the_users(harness: Any, scripted: Any) -> None:
    def index(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i] * 2 + 1

    compiled = harness.compile(index, scripted)
    check(compiled, index, X, torch.tensor([0, 2]))
    with pytest.raises(IndexError):
        compiled(X, torch.tensor([7]))
    check(compiled, index, X, torch.tensor([1, 1]))
    assert not harness.stages


def test_interrupting_passes_through(harness: Any, scripted: Any) -> None:
    scripted.run_error = lambda run: KeyboardInterrupt() if run == 2 else None
    compiled = harness.compile(fn, scripted)
    check(compiled, fn, X)
    with pytest.raises(KeyboardInterrupt):
        compiled(X)
    check(compiled, fn, X)
    assert not harness.stages


def test_a_refused_operator_splits_the_graph(harness: Any, scripted: Any) -> None:
    def long(x: torch.Tensor) -> torch.Tensor:
        y = x.sin().cos().exp().tanh()
        return y.cumsum(0).sin().cos().exp()

    scripted.refuses = ("cumsum",)
    check(harness.compile(long, scripted), long, X)
    assert harness.engines == {"scripted": 7, "eager": 1}
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.operator) == ("unsupported", "aten.cumsum.default")


def test_one_part_failing_leaves_the_other(harness: Any, scripted: Any) -> None:
    def long(x: torch.Tensor) -> torch.Tensor:
        return x.sin().cos().exp().cumsum(0).sin().cos().exp()

    scripted.refuses = ("cumsum",)
    scripted.lower_error = lambda n: RuntimeError("one") if n == 0 else None
    compiled = harness.compile(long, scripted)
    for _ in range(2):
        check(compiled, long, X)
    assert harness.engines == {"scripted": 3, "eager": 4}


def test_parts_too_small_stay_in_eager(harness: Any, scripted: Any) -> None:
    def short(x: torch.Tensor) -> torch.Tensor:
        return x.sin().cumsum(0).cos().cumsum(1).exp()

    scripted.refuses = ("cumsum",)
    check(harness.compile(short, scripted), short, X)
    assert harness.engines == {"eager": 5}
    reasons = {p.reason: p.short for p in harness.journal.partitions.values()}
    assert reasons.pop("Only 1 operation in a row: min_partition is 3.")
    assert set(reasons.values()) == {False}


@pytest.mark.parametrize(
    ("fails", "stage"),
    [
        ({"lower_error": lambda n: RuntimeError("odd") if n % 2 else None}, "lower"),
        ({"lower_error": lambda n: StayEager("Forward only.") if n else None}, "unsupported"),
        ({"run_error": lambda run: RuntimeError("back") if run % 2 == 0 else None}, "run"),
        ({"change": lambda o: [v * 1.5 for v in o]}, "verify"),
    ],
)
def test_training_is_right_where_a_pass_is_eagers(
    harness: Any, scripted: Any, fails: dict[str, Any], stage: str
) -> None:
    model, twin = mlp(), mlp()
    twin.load_state_dict(model.state_dict())
    vars(scripted).update(fails)
    compiled = harness.compile(model, scripted)
    for _ in range(4):
        compiled(X).square().sum().backward()
        twin(X).square().sum().backward()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    assert set(harness.stages) == {stage}


def test_mutated_inputs_and_buffers(harness: Any, scripted: Any) -> None:
    model = nn.BatchNorm1d(4).train()
    twin = copy.deepcopy(model)
    compiled = harness.compile(model, scripted)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(X), twin(X))
    for a, b in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(a, b)

    def bump(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2 + x

    compiled = harness.compile(bump, scripted)
    a, b = X.clone(), X.clone()
    torch.testing.assert_close(compiled(a, a), bump(b, b))
    torch.testing.assert_close(a, b)
    assert set(harness.stages) <= {"unsupported"}


def test_fixed_shapes_have_an_engine_each_up_to_a_bound(
    harness: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shape_limit, "MOST_SHAPES", 3)
    monkeypatch.setattr(shape_limit, "AT_ONCE", 3)

    def sized(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * x.shape[0]).reshape(x.shape[0] * 2, -1) + 1

    compiled = harness.compile(sized, scripted, dynamic=True)
    for rows in (2, 3, 2, 4, 5, 6, 3):
        check(compiled, sized, torch.randn(rows, 4))
    assert len(scripted.lowered) == 3
    assert set(scripted.inputs) == {1}
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.count) == ("run", 2)
    assert "shapes" in fallback.message


def test_without_a_recorder_a_fallback_is_a_warning(scripted: Any) -> None:
    from dynamo_ext.backends.compiler import Compiler

    scripted.lower_error = lambda _: RuntimeError("broken")
    compiled = torch.compile(fn, backend=Compiler(scripted, {}))
    with pytest.warns(FallbackWarning, match="lower: .*broken") as seen:
        check(compiled, fn, X)
    # It points to the call, not to our files or torch's.
    assert Path(seen[0].filename).parent == Path(__file__).parent
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(compiled, fn, X)


def test_normalisation_failing_is_a_fallback(
    harness: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dynamo_ext.backends.torch_private import aot

    def broken(*_: Any, **__: Any) -> Any:
        message = "subclass"
        raise NotImplementedError(message)

    monkeypatch.setattr(aot, "aot_compile", broken)
    monkeypatch.setattr(EngineStore, "find", lambda *_: None)
    check(harness.compile(fn, scripted), fn, X)
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope) == ("lower", "graph")
    assert "normalised" in fallback.message


def test_a_backend_may_leave_a_graph_in_eager(harness: Any, scripted: Any) -> None:
    def decide(table: Any, *, training: bool) -> Any:
        if not training:
            reason, remedy = "It only trains.", "Train."
            raise StayEager(reason, remedy)
        return table

    scripted.decompositions = decide
    compiled = harness.compile(fn, scripted)
    for _ in range(2):
        check(compiled, fn, X)
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope, fallback.count) == ("unsupported", "graph", 1)
    assert (fallback.message, fallback.remedy) == ("It only trains.", "Train.")
    assert (fallback.exception, fallback.operator) == ("", "")
    assert not scripted.lowered
    compiled(X.clone().requires_grad_())[0].sum().backward()
    assert harness.engines["scripted"] > 0


def test_no_grad_inside_the_captured_code_means_inference(harness: Any) -> None:
    from dynamo_ext.backends import registry

    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))

    def fn(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return net(x).softmax(-1)

    x = torch.randn(2, 4)
    # optimize_for_inference refuses what will be differentiated.
    torch.testing.assert_close(harness.compile(fn, registry.compiler("ofi"))(x), fn(x))
    assert set(harness.engines) == {"ofi"}
    assert harness.stages == []


@pytest.mark.parametrize("backend", ["aot_eager", "inductor", "ofi", "ts", "onnxrt"])
@pytest.mark.parametrize("inside", ["plain", "checkpoint", "overload"])
def test_a_graph_that_torch_cuts_up_wrongly_stays_in_eager(
    harness: Any, backend: str, inside: str
) -> None:
    from dynamo_ext.backends import registry

    loss = torch.nn.functional.multilabel_margin_loss

    def of(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if inside == "plain":
            return loss(x, labels) * 2
        if inside == "checkpoint":
            return torch.utils.checkpoint.checkpoint(loss, x, labels, use_reentrant=False) * 2
        return torch.ops.aten.multilabel_margin_loss_forward(x, labels, 1)[0] * 2

    x = torch.tensor([[0.5, -1.0, 2.0, 0.1]])
    compiled = harness.compile(of, registry.compiler(backend))
    # With all labels there, which is right when cut up, too; then with one and a gap.
    for labels in (torch.tensor([[3, 2, 0, 1]]), torch.tensor([[3, -1, 0, 1]])):
        torch.testing.assert_close(compiled(x, labels), of(x, labels))
    assert harness.stages == ["unsupported"]


def test_torchs_operators_are_left_as_they_are() -> None:
    margin = torch.ops.aten.multilabel_margin_loss_forward.default
    before = dict(margin.py_kernels)
    dynamo_ext.optimize("ts")(lambda x: (x + 1).relu() * 2)(torch.randn(3))
    assert before
    assert margin.py_kernels == before
