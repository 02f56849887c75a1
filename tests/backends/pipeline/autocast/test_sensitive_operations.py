"""Of a graph in a lower precision that is too far off, the operations that are to blame are kept."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest
import torch

import dynamo_ext
from dynamo_ext.backends import precision, registry
from dynamo_ext.backends.journal import Journal
from dynamo_ext.backends.pipeline.autocast import sensitive_operations
from dynamo_ext.backends.pipeline.autocast.sensitive_operations import smallest
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.numerics.lowered_precision import BOUNDS, relative_error
from dynamo_ext.records.graph import KeptOperation
from dynamo_ext.records.report import Report
from tests.needs import needs_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamo_ext.records.graph import Graph

    Function = Callable[[torch.Tensor], torch.Tensor]

BACKENDS = ("eager", "aot_eager", "inductor", "ts")


@pytest.fixture(autouse=True)
def without_gradients() -> object:
    torch._dynamo.reset()
    with torch.no_grad():
        yield


class Sought:
    """A condition that some candidates meet together; ``asked`` counts how often it was asked."""

    def __init__(self, *needed: str) -> None:
        self.needed = set(needed)
        self.asked = 0

    def __call__(self, kept: Sequence[str]) -> bool:
        self.asked += 1
        return self.needed <= set(kept)


MANY = [f"n{number}" for number in range(1000)]


def test_one_of_many_is_found_by_halves() -> None:
    sought = Sought("n617")
    assert smallest(MANY, sought, 250) == ["n617"]
    assert sought.asked <= 14


def test_several_are_found_one_after_another() -> None:
    sought = Sought("n3", "n4", "n999")
    assert sorted(smallest(MANY, sought, 250)) == ["n3", "n4", "n999"]
    assert sought.asked <= 40


def test_too_many_are_none() -> None:
    assert smallest(MANY, Sought("n3", "n4", "n999"), 2) == []


def test_where_all_do_not_help_or_nothing_is_wrong() -> None:
    assert smallest(MANY, Sought("another"), 250) == []
    assert smallest(MANY, Sought(), 250) == []
    assert smallest([], Sought("another"), 1) == []


torch.manual_seed(0)
FIRST, SHIFTED, LAST = (torch.nn.Linear(64, 64, bias=each < 2) for each in range(3))
with torch.no_grad():
    SHIFTED.bias.fill_(1000.0)
X, ONES, EYE = torch.randn(256, 64), torch.ones(64, 64), torch.eye(64)


def cancels(x: torch.Tensor) -> torch.Tensor:
    hidden = FIRST(x).relu()
    rows = 15.625 + x * 1e-3
    small = rows @ ONES.to(x) - 1000.0  # kept
    return LAST(hidden * small)


def sharp(x: torch.Tensor) -> torch.Tensor:
    values = FIRST(x)
    keys = x * 0.1 + 4.0
    scores = keys[:16] @ keys.t()  # kept
    return LAST(torch.softmax(scores, -1) @ values)


def outliers(x: torch.Tensor) -> torch.Tensor:
    hidden = SHIFTED(FIRST(x).relu())  # kept
    return LAST(torch.nn.functional.layer_norm(hidden, (64,)))


def absorbed(x: torch.Tensor) -> torch.Tensor:
    hidden = FIRST(x)
    shifted = hidden + 1000.0  # kept
    return LAST(shifted - 1000.0)


TROUBLES = {each.__name__: each for each in (cancels, sharp, outliers, absorbed)}
CASES = [(backend, trouble) for backend in BACKENDS for trouble in TROUBLES]
# Inductor computes operations without a product between them in float32: there is no trouble.
CASES.remove(("inductor", "absorbed"))
TARGETS = {"cancels": "matmul", "sharp": "matmul", "outliers": "linear", "absorbed": "add"}


def kept_lines(graph: Graph) -> list[int]:
    names = {each.name for each in graph.kept}
    return [op.line.line for op in graph.operations if op.name in names and op.line]


def marked(function: Function) -> list[int]:
    lines, first = inspect.getsourcelines(function)
    return [first + number for number, line in enumerate(lines) if line.endswith("# kept\n")]


def error(function: Function, found: torch.Tensor, x: torch.Tensor = X) -> float:
    for layer in (FIRST, LAST, SHIFTED):
        layer.double()
    try:
        torch.set_default_dtype(torch.float64)
        return relative_error(found, function(x.double()))
    finally:
        torch.set_default_dtype(torch.float32)
        for layer in (FIRST, LAST, SHIFTED):
            layer.float()


@pytest.mark.parametrize(("backend", "trouble"), CASES)
def test_the_operation_to_blame_is_kept(backend: str, trouble: str) -> None:
    needs_backend(backend)
    function = TROUBLES[trouble]
    compiled = dynamo_ext.optimize(f"{backend}:bf16")(function)
    first, second = compiled(X), compiled(X)
    [graph] = compiled.report().graphs
    assert compiled.report().fallbacks == ()
    for found in (first, second):
        assert found.dtype is torch.float32
        # Some of it is in bfloat16.
        assert 1e-5 < error(function, found) < BOUNDS["bf16"]
    [kept] = graph.kept
    assert kept.error_without is not None
    assert kept.error < BOUNDS["bf16"] < kept.error_without
    assert kept_lines(graph) == marked(function)
    [target] = [op.target for op in graph.operations if op.name == kept.name]
    assert target.endswith(TARGETS[trouble])


def test_an_operation_is_kept_for_a_bound_of_the_users() -> None:
    def rounded(x: torch.Tensor) -> torch.Tensor:
        hidden = FIRST(x)
        shifted = hidden + 8.0  # kept
        return LAST(shifted - 8.0)

    usual = dynamo_ext.optimize("eager:bf16")(rounded)
    lost = error(rounded, usual(X))
    assert usual.report().graphs[0].kept == ()
    torch.compiler.reset()
    compiled = dynamo_ext.optimize("eager:bf16")(rounded)
    with precision.within(AccuracyBound.parse(f"rel<={lost / 2}")):
        assert 1e-5 < error(rounded, compiled(X)) < lost / 2
    [graph] = compiled.report().graphs
    assert compiled.report().fallbacks == ()
    assert kept_lines(graph) == marked(rounded)
    [kept] = graph.kept
    assert kept.error_without is not None
    assert kept.error < lost / 2 < kept.error_without


def test_what_is_not_finite_without_it_has_no_error() -> None:
    def overflows(x: torch.Tensor) -> torch.Tensor:
        hidden = FIRST(x)
        large = hidden * 1e6
        return LAST(large / 1e6)

    compiled = dynamo_ext.optimize("eager:fp16")(overflows)
    assert torch.isfinite(compiled(X)).all()
    [kept] = compiled.report().graphs[0].kept
    assert kept.error_without is None


def twice(x: torch.Tensor) -> torch.Tensor:
    hidden = x
    for _ in range(6):
        hidden = LAST(FIRST(hidden).relu())
    one = (15.625 + x * 1e-3) @ ONES - 1000.0
    other = (15.625 - x * 1e-3) @ ONES - 1000.0
    return torch.stack([hidden, one, other])


@pytest.mark.parametrize("left", [True, False])
def test_several_operations(left: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*given: object) -> list[str]:
        names = smallest(*given)  # type: ignore[arg-type]
        if not left:
            # What was found stays, where it takes the last trial.
            monkeypatch.setattr(sensitive_operations, "MOST_TRIALS", 0)
        return names

    monkeypatch.setattr(sensitive_operations, "smallest", search)
    compiled = dynamo_ext.optimize("eager:bf16")(lambda x: twice(x).unbind())
    compiled(X)
    report = compiled.report()
    assert report.fallbacks == ()
    assert len(report.graphs[0].kept) == 2
    assert len(set(kept_lines(report.graphs[0]))) == 2


def sensitive(x: torch.Tensor) -> torch.Tensor:
    for _ in range(8):
        x = (x * 1e-3 + 15.625) @ EYE - 15.625
        x = x * 1e3
    return x


@pytest.mark.parametrize("backend", BACKENDS)
def test_where_all_are_sensitive_the_graph_is_eagers(backend: str) -> None:
    needs_backend(backend)
    compiled = dynamo_ext.optimize(f"{backend}:bf16")(sensitive)
    assert torch.equal(compiled(X), sensitive(X))
    [graph] = compiled.report().graphs
    assert graph.kept == ()
    assert [each.stage for each in compiled.report().fallbacks] == ["verify"]


def test_nothing_is_searched_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensitive_operations, "found", None)
    compiled = dynamo_ext.optimize("eager:bf16")(lambda x: LAST(FIRST(x)))
    compiled(X)
    assert compiled.report().fallbacks == ()
    assert compiled.report().graphs[0].kept == ()


@pytest.mark.parametrize("limit", ["MOST_TRIALS", "MOST_SECONDS"])
def test_a_search_that_is_too_long_ends_in_eager(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitive_operations, limit, 1 if limit == "MOST_TRIALS" else -1.0)
    compiled = dynamo_ext.optimize("eager:bf16")(sharp)
    assert torch.equal(compiled(X), sharp(X))
    assert [each.stage for each in compiled.report().fallbacks] == ["verify"]


def test_a_graph_that_may_be_differentiated_is_eagers() -> None:
    compiled = dynamo_ext.optimize("eager:bf16")(sharp)
    with torch.enable_grad():
        found = compiled(X)
        assert torch.equal(found, sharp(X))
        found.sum().backward()
    assert compiled.report().graphs[0].kept == ()
    [fallback] = compiled.report().fallbacks
    assert fallback.stage == "verify"
    assert "torch.no_grad()" in fallback.remedy
    for layer in (FIRST, LAST):
        layer.zero_grad()


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_sizes_that_are_symbols(backend: str) -> None:
    needs_backend(backend)
    compiled = dynamo_ext.optimize(f"{backend}:bf16", dynamic=True)(sharp)
    for size in (256, 240, 224):
        x = torch.randn(size, 64)
        assert error(sharp, compiled(x), x) < BOUNDS["bf16"]
    [graph] = compiled.report().graphs
    stages = [each.stage for each in compiled.report().fallbacks]
    # What is compiled outside of Dynamo would have the sizes of one call.
    assert (len(graph.kept), stages) == ((1, []) if backend == "eager" else (0, ["verify"]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_is_changed_once(backend: str) -> None:
    needs_backend(backend)

    def function(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        count.add_(1.0)
        return sharp(x) + count

    compiled = dynamo_ext.optimize(f"{backend}:bf16")(function)
    count = torch.zeros(1)
    for number in (1.0, 2.0):
        found = compiled(X, count)
        assert float(count) == number
        assert error(sharp, found - number) < 2 * BOUNDS["bf16"]
    assert len(compiled.report().graphs[0].kept) == 1


def test_a_second_form_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiler(graph: torch.fx.GraphModule, inputs: Sequence[object]) -> Callable[..., object]:
        if any("_enter_autocast" in str(node.target) for node in graph.graph.nodes):
            raise RuntimeError
        return graph.forward

    backend = registry.get("eager")
    monkeypatch.setattr(backend, "lower", lambda graph, inputs, options: compiler(graph, inputs))
    compiled = dynamo_ext.optimize("eager:bf16")(sharp)
    assert torch.equal(compiled(X), sharp(X))
    assert compiled.report().graphs[0].kept == ()
    assert [each.stage for each in compiled.report().fallbacks] == ["verify"]


def test_a_saved_report_has_them() -> None:
    compiled = dynamo_ext.optimize("eager:bf16")(sharp)
    compiled(X)
    record = compiled.report().to_dict()
    assert Report.from_dict(record).graphs[0].kept == compiled.report().graphs[0].kept
    del record["graphs"][0]["kept"]
    assert Report.from_dict(record).graphs[0].kept == ()


def test_another_journal_takes_them_over() -> None:
    journal, other = Journal(), Journal()
    other.kept["p"] = KeptOperation("p", 0.03, 0.002)
    journal.merge(other)
    other.kept["q"] = KeptOperation("q", 0.04, 0.002)
    assert list(journal.kept) == ["p", "q"]
