"""Products that stay in float32 where int8 would lose too much, in the engines that have it."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace

import dynamo_ext
from dynamo_ext.analysis.kept_operations import clauses
from dynamo_ext.backends import precision, registry
from dynamo_ext.backends.pipeline import sensitive_products
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.report import Report
from tests.backends.engine_zoo import error

WIDTH = 32
DEPTH = 8


class Deep(nn.Module):
    """Linear layers; the weights of some are lost beside an outlier that is multiplied by zero."""

    def __init__(self, *planted: int, outlier: float = 1e5) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(WIDTH, WIDTH, bias=place % 2 == 0) for place in range(DEPTH)
        )
        self.register_buffer("mask", torch.arange(WIDTH).clamp_max(1).float())
        with torch.no_grad():
            for layer in self.layers:
                nn.init.orthogonal_(layer.weight)
            for each in planted:
                self.layers[each].weight[:, 0] = outlier

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            x = layer(x * self.mask).tanh()
        return self.layers[-1](x * self.mask)


class Image(nn.Module):
    """Convolutions, of which the third has such an outlier."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4))
        self.norm = nn.BatchNorm2d(8)
        self.register_buffer("mask", torch.arange(8).clamp_max(1).float().view(8, 1, 1))
        with torch.no_grad():
            for layer in self.layers:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
            self.layers[2].weight[:, 0] = 1e5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.norm(layer(x * self.mask)).tanh()
        return x


@pytest.mark.parametrize("planted", [(5,), (2, 6), (7,)])
def test_the_products_that_lose_too_much_stay_in_float32(
    engine: str, planted: tuple[int, ...]
) -> None:
    model = Deep(*planted).eval()
    compiled = dynamo_ext.optimize(f"{engine}:int8")(model)
    x = torch.randn(4, WIDTH)
    with torch.no_grad():
        for _ in range(2):
            assert 1e-4 < error(compiled(x), model(x)) < 0.2
    report = compiled.report()
    assert report.fallbacks == ()
    [graph] = report.graphs
    assert [part.engine for part in graph.partitions] == [engine]
    assert graph.lowered == 2 * 4 * WIDTH * WIDTH * (DEPTH - len(planted))
    modules = {each.name: each.module for each in graph.operations}
    assert {modules[each.name] for each in graph.kept} == {
        f"Deep.layers.{each}" for each in planted
    }
    for kept in graph.kept:
        assert kept.error_without is not None
        assert kept.error < 0.2 < kept.error_without
    assert len(clauses(report)) == len(planted)
    assert "(Deep.layers." in clauses(report)[0]
    assert all("stays in float32: error" in each for each in clauses(report))
    assert Report.from_dict(report.to_dict()).graphs[0].kept == graph.kept


def test_products_of_more_dimensions_are_kept_too(engine: str) -> None:
    model = Deep(4, 5).eval()
    compiled = dynamo_ext.optimize(f"{engine}:int8")(model)
    x = torch.randn(2, 3, WIDTH)
    with torch.no_grad():
        assert 1e-4 < error(compiled(x), model(x)) < 0.2
    [graph] = compiled.report().graphs
    modules = {each.name: each.module for each in graph.operations}
    assert {modules[each.name] for each in graph.kept} == {"Deep.layers.4", "Deep.layers.5"}


def test_where_too_many_lose_too_much_all_is_eagers(engine: str) -> None:
    model = Deep(1, 4, 6).eval()
    compiled = dynamo_ext.optimize(f"{engine}:int8")(model)
    x = torch.randn(4, WIDTH)
    with torch.no_grad():
        assert torch.equal(compiled(x), model(x))
    report = compiled.report()
    [fallback] = report.fallbacks
    assert (fallback.stage, report.graphs[0].kept) == ("verify", ())
    assert "int8 may have 0.2" in fallback.message
    assert fallback.remedy == precision.REMEDY


def test_products_are_kept_for_a_bound_of_the_users(engine: str) -> None:
    x = torch.randn(4, WIDTH)
    model = Deep(5, outlier=8.0).eval()
    with torch.no_grad():
        usual, lost = (
            error(dynamo_ext.optimize(f"{engine}:int8")(each)(x), each(x))
            for each in (Deep().eval(), model)
        )
        assert 2 * usual < lost < 0.2
        limit = (usual * lost) ** 0.5
        torch.compiler.reset()
        bound = AccuracyBound.parse(f"rel<={limit}")
        compiler = registry.compiler(f"{engine}:int8").within(bound)
        compiled = dynamo_ext.optimize(compiler)(model)
        compiled(x)
        assert 1e-4 < error(compiled(x), model(x)) < limit
    [graph] = compiled.report().graphs
    [kept] = graph.kept
    assert {each.name: each.module for each in graph.operations}[kept.name] == "Deep.layers.5"
    assert kept.error_without is not None
    assert kept.error < limit < kept.error_without


def test_what_misses_a_bound_of_the_users_all_the_same_runs_as_it_is(engine: str) -> None:
    model, x = Deep().eval(), torch.randn(9, WIDTH)
    with torch.no_grad():
        lost = error(dynamo_ext.optimize(f"{engine}:int8")(model)(x), model(x))
    torch.compiler.reset()
    # Less than a quarter of the products lose, and not so little that none are tried.
    bound = AccuracyBound.parse(f"rel<={0.75 * lost}")
    compiler = registry.compiler(f"{engine}:int8").within(bound)
    compiled = dynamo_ext.optimize(compiler, dynamic=True)(model)
    with torch.no_grad():
        for rows in (4, 4, 6, 6):
            x = torch.randn(rows, WIDTH)
            assert 1e-4 < error(compiled(x), model(x)) < 0.2
    report = compiled.report()
    assert report.fallbacks == ()
    [graph] = report.graphs
    assert graph.kept == ()
    [part] = graph.partitions
    assert part.engine == engine
    # One more than there are sizes that have engines of their own: with two products kept.
    assert part.engines_built == (3 if engine == "openvino" else 2)


def test_another_size_keeps_the_same_products(engine: str) -> None:
    model = Deep(3).eval()
    compiled = dynamo_ext.optimize(f"{engine}:int8", dynamic=True)(model)
    with torch.no_grad():
        for rows in (4, 6):
            x = torch.randn(rows, WIDTH)
            assert 1e-4 < error(compiled(x), model(x)) < 0.2
    [graph] = compiled.report().graphs
    [part] = graph.partitions
    assert (part.engine, len(graph.kept)) == (engine, 1)
    # Two more than it needs: with none kept, and with two.
    assert part.engines_built == (4 if engine == "openvino" else 3)


def test_a_calibrated_convolution_is_kept_too(engine: str) -> None:
    model = Image().eval()
    compiled = dynamo_ext.optimize(f"{engine}:int8")(model)
    with torch.no_grad():
        with dynamo_ext.calibrating():
            for _ in range(3):
                compiled(torch.randn(2, 8, 10, 10))
        x = torch.randn(2, 8, 10, 10)
        assert 1e-4 < error(compiled(x), model(x)) < 0.2
    [graph] = compiled.report().graphs
    [part] = graph.partitions
    assert (part.engine, part.calibrated, len(graph.kept)) == (engine, 3, 1)
    assert graph.lowered == 3 * 2 * 2 * 8 * 8 * 9 * 100


def test_products_are_ranked_by_what_rounding_loses() -> None:
    class Three(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.Parameter(torch.randn(3, WIDTH, WIDTH))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            mm = torch.ops.aten.mm.default
            return mm(x, self.weights[0]), mm(y, self.weights[1]), mm(x, self.weights[2])

    x = torch.randn(4, WIDTH)
    far = torch.randn(4, WIDTH)
    far[0, 0] = 1e4
    graph = symbolic_trace(Three())
    names = ["mm_default", "mm_default_1"]
    lost = sensitive_products.errors(graph, names, (x, far))
    found = sorted(lost, key=lambda node: -lost[node])
    assert [node.name for node in found] == names[::-1]


@pytest.mark.parametrize(
    ("bound", "error", "hopeless"),
    [
        ("rel<=0.01", 0.02, True),
        ("rel<=0.01", 0.014, False),
        # Of one that loses ten times as much nothing is left but a tenth.
        ("cosine>=0.9999", 0.2, True),
        ("top1>=0.99", 0.2, False),
    ],
)
def test_a_bound_out_of_reach_is_not_tried(bound: str, error: float, hopeless: bool) -> None:
    even, uneven = [0.1] * 8, [0.01] * 7 + [1.0]
    chosen = AccuracyBound.parse(bound)
    assert sensitive_products.hopeless(even, error, chosen) is hopeless
    assert not sensitive_products.hopeless(uneven, error, chosen)
    assert not sensitive_products.hopeless(even, error, None)
