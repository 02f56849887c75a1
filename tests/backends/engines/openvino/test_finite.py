"""OpenVINO's own ReLU and max pooling, where nothing can be NaN, and what happens where it is."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule, Interpreter, Node

import dynamo_ext
from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.openvino import finite

pytestmark = pytest.mark.skipif(
    not registry.probe(registry.get("openvino")).available, reason="OpenVINO is not here."
)


class Net(nn.Module):
    """Convolutions behind each of what OpenVINO fuses with them."""

    def __init__(self, size: float = 1.0) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.layers = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))
        self.last = nn.Linear(8, 4)
        with torch.no_grad():
            for layer in self.layers:
                layer.weight.mul_(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.max_pool2d(self.norm(self.first(x)).relu(), 2)
        for layer in self.layers:
            y = (
                y
                + nn.functional.relu6(nn.functional.pad(layer(y), (1, 0, 1, 0))[..., 1:, 1:])
                .clamp(min=-1.0)
                .relu()
            )
        return self.last(y.mean((2, 3))).sigmoid()


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[tuple[GraphModule, finite.Finite]]:
    """What was found in each partition of more than a few operations."""
    made: list[tuple[GraphModule, finite.Finite]] = []

    def noted(graph: GraphModule) -> finite.Finite:
        answer = find(graph)
        if len(graph.graph.nodes) > 8:
            made.append((graph, answer))
        return answer

    find = finite.found
    monkeypatch.setattr(finite, "found", noted)
    return made


def same(compiled: Any, model: nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), equal_nan=True, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 1e12])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_what_is_not_finite_or_large_comes_out_as_in_eager(
    value: float, precision: str, found: list[Any]
) -> None:
    model = Net().eval()
    compiled = dynamo_ext.optimize("openvino", options={"precision": precision})(model)
    x = torch.randn(2, 3, 8, 8)
    if precision == "int8":
        if reason := registry.get("openvino").lacks_precision("int8"):
            pytest.skip(reason)
        with torch.no_grad(), dynamo_ext.calibrating():
            compiled(x)
    good = x.clone()
    x[0, 1, 4, 4] = value
    for _ in range(5):
        with torch.no_grad():
            assert (compiled(good) - model(good)).abs().max() < 0.05
        same(compiled, model, x)
    report = compiled.report()
    [fallback] = report.fallbacks
    assert (fallback.stage, fallback.exception, fallback.count) == (
        "run",
        "RunThisCallEagerlyError",
        5,
    )
    assert "they lose NaN" in fallback.message
    assert [part.engine for g in report.graphs for part in g.partitions] == ["openvino"]
    [(_, answer)] = found
    assert len(answer.checked) == 1


def test_where_no_call_has_small_numbers_any_more_eager_runs_all(found: list[Any]) -> None:
    model = Net().eval()
    compiled = dynamo_ext.optimize("openvino")(model)
    x = torch.randn(2, 3, 8, 8)
    same(compiled, model, x)
    for _ in range(12):
        same(compiled, model, 1e12 * x)
    [part] = compiled.report().graphs[0].partitions
    assert part.engine == "eager"
    assert "too large" in part.reason
    assert len(found) == 1


def test_where_the_first_call_has_large_numbers_all_calls_keep_nan(found: list[Any]) -> None:
    model = Net().eval()
    compiled = dynamo_ext.optimize("openvino")(model)
    x = torch.randn(2, 3, 8, 8)
    for value in (1e12, 1.0, torch.nan, 2.0):
        x[0, 1, 4, 4] = value
        same(compiled, model, x)
    report = compiled.report()
    assert report.fallbacks == ()
    assert [part.engine for g in report.graphs for part in g.partitions] == ["openvino"]
    assert len(found) == 1


def test_a_relu_behind_a_view_is_spared(found: list[Any]) -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(12))
            with torch.no_grad():
                for layer in self.layers:
                    layer.weight.mul_(1e3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(x).flatten(2).transpose(1, 2)
            for layer in self.layers:
                y = layer(y).relu()
            return y.tanh()

    model = Rows().eval()
    compiled = dynamo_ext.optimize("openvino")(model)
    same(compiled, model, torch.randn(2, 3, 6, 6))
    report = compiled.report()
    assert report.fallbacks == ()
    [(_, answer)] = found
    assert len(answer.spared) == 12
    assert len(answer.checked) > 1


def _bound(function: Any, *given: torch.Tensor) -> float:
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(function)(*given)
    for node in graph.graph.find_nodes(op="placeholder"):
        node.meta.setdefault("val", given[0])
    bounds = finite.Bounds(graph)
    bounds.first_beyond()
    [result] = graph.graph.output_node().all_input_nodes
    return bounds.known[result]


@pytest.mark.parametrize(
    ("function", "bound"),
    [
        (lambda x: x.clamp(5, 6), finite.SMALL),
        (lambda x: x.clamp(-5, 6), 6.0),
        (lambda x: x.clamp(min=1e9), 1e9),
        (lambda x: x.clamp(max=float("nan")), torch.inf),
        (lambda x: nn.functional.hardtanh(x, 2.0, 3e9), 3e9),
        (lambda x: nn.functional.avg_pool2d(x, 2, divisor_override=1), torch.inf),
        (lambda x: nn.functional.avg_pool2d(x, 2), finite.SMALL),
        (lambda x: nn.functional.max_pool2d(x, 2, padding=1, dilation=3), torch.inf),
        (lambda x: nn.functional.pad(x, (1, 1), value=float("nan")), torch.inf),
        (lambda x: nn.functional.pad(x, (1, 1), value=-1e9), 1e9),
        (lambda x: torch.cat([x, x * float("nan")]), torch.inf),
        (lambda x: x.view(torch.int32), torch.inf),
        (lambda x: torch.add(x, x, alpha=-3), 4 * finite.SMALL),
        (lambda x: x.sum(), torch.inf),
        (lambda x: x.sigmoid() - 1, 2.0),
        (lambda x: x.exp(), torch.inf),
    ],
)
def test_bounds(function: Any, bound: float) -> None:
    assert _bound(function, torch.randn(1, 1, 4, 4)) == bound


def test_what_grows_beyond_the_dtype_comes_out_as_in_eager(found: list[Any]) -> None:
    model = nn.Sequential(*(each for _ in range(8) for each in (nn.Conv2d(3, 3, 3), nn.ReLU())))
    with torch.no_grad():
        for layer in model[::2]:
            layer.weight.mul_(1e5)
    compiled = dynamo_ext.optimize("openvino")(model)
    # With the last two eager overflows.
    for size in (0.0, 1e-38, 1e-30, 1.0, 1e8):
        same(compiled, model, size * torch.randn(2, 3, 20, 20))
    [(graph, answer)] = found
    relus = [node for node in graph.graph.nodes if node.target is torch.ops.aten.relu.default]
    assert len(answer.checked) > 1
    assert {node.name for node in relus} == set(answer.spared)


class Largest(Interpreter):
    """Runs a partition, and keeps the largest magnitude of each result."""

    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.found: dict[Node, float] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            self.found[n] = float(result.abs().amax())
        return result


def test_no_result_is_larger_than_its_bound(found: list[Any]) -> None:
    model = Net(3.0).eval()
    with torch.no_grad():
        dynamo_ext.optimize("openvino")(model)(torch.randn(2, 3, 8, 8))
    [(graph, _)] = found
    bounds = finite.Bounds(graph)
    assert bounds.first_beyond() is None
    for seed in range(5):
        torch.manual_seed(seed)
        x = torch.randn(2, 3, 8, 8)
        largest = Largest(graph)
        with torch.no_grad():
            largest.run(x * (finite.SMALL / x.norm()))
        assert largest.found
        for node, size in largest.found.items():
            assert size <= 1.001 * bounds.known[node] < 1e30, node


def test_without_a_convolution_nothing_is_checked(found: list[Any]) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    with torch.no_grad():
        dynamo_ext.optimize("openvino")(model.eval())(torch.randn(2, 8))
    assert [answer for _, answer in found] == [finite.Finite()]
