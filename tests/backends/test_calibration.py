"""Calls that calibrate int8, in the engines that are calibrated."""

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

import dynamo_ext
from dynamo_ext.backends import calibration, registry
from dynamo_ext.backends.pipeline.calls.engines import Engines
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from tests.backends.engine_zoo import error

WIDTH = 16


class Net(nn.Module):
    """Convolutions of every kind that networks have, and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.norm = nn.BatchNorm2d(WIDTH)
        self.each = nn.Conv2d(WIDTH, WIDTH, 3, stride=2, groups=WIDTH, bias=False)
        self.last = nn.Linear(WIDTH, 8)

    def forward(self, x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.first(x)).relu()
        return self.last((self.each(y).relu() + shift).mean((2, 3)))


@pytest.fixture
def net() -> nn.Module:
    """A network as it is used."""
    return Net().eval()


def batches(count: int, size: float = 1.0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(size * torch.randn(4, 3, 12, 12), torch.randn(4, 1, 1, 1)) for _ in range(count)]


def calibrate(compiled: Any, inputs: Sequence[Any]) -> None:
    with torch.no_grad(), dynamo_ext.calibrating():
        for each in inputs:
            compiled(*each)


def engines(report: Any) -> list[tuple[str, int]]:
    return [(part.engine, part.calibrated) for g in report.graphs for part in g.partitions]


def test_convolutions_are_in_int8_where_calls_gave_their_ranges(
    engine: str, net: nn.Module
) -> None:
    products = 2 * 4 * WIDTH * (12 * 12 * 3 * 9 + 5 * 5 * 9 + 8)
    linear = 2 * 4 * WIDTH * 8
    for calls, operations in ((5, products), (0, linear)):
        torch.compiler.reset()
        compiled = dynamo_ext.optimize(f"{engine}:int8")(net)
        if calls:
            calibrate(compiled, batches(calls))
        [given] = batches(1)
        with torch.no_grad():
            assert 1e-4 < error(compiled(*given), net(*given)) < 0.05
        report = compiled.report()
        assert engines(report) == [(engine, calls)]
        assert report.fallbacks == ()
        assert [graph.lowered for graph in report.graphs] == [operations]


def test_calls_that_calibrate_give_eagers_results(engine: str, net: nn.Module) -> None:
    compiled = dynamo_ext.optimize(f"{engine}:int8")(net)
    with torch.no_grad(), dynamo_ext.calibrating():
        for given in batches(2):
            torch.testing.assert_close(compiled(*given), net(*given))
    assert [part.engines_built for g in compiled.report().graphs for part in g.partitions] == [0]


def test_what_is_far_beyond_the_ranges_is_eagers(engine: str, net: nn.Module) -> None:
    compiled = dynamo_ext.optimize(f"{engine}:int8")(net)
    calibrate(compiled, batches(3, size=0.01))
    given = 10 * torch.randn(4, 3, 12, 12), torch.zeros(4, 1, 1, 1)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*given), net(*given))
    [fallback] = compiled.report().fallbacks
    assert fallback.stage == "verify"
    assert "int8 may have 0.2" in fallback.message


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_inputs_that_are_not_finite_calibrate_nothing(
    engine: str, net: nn.Module, value: float
) -> None:
    compiled = dynamo_ext.optimize(f"{engine}:int8")(net)
    [given], [(x, shift)] = batches(1), batches(1)
    x[1, 2, 3, 4] = value
    calibrate(compiled, [given, (x, shift)])
    with torch.no_grad():
        assert error(compiled(*given), net(*given)) < 0.05
    assert engines(compiled.report()) == [(engine, 1)]


def test_an_activation_that_was_always_zero_is_not_rounded(engine: str, net: nn.Module) -> None:
    compiled = dynamo_ext.optimize(f"{engine}:int8")(net)
    calibrate(compiled, batches(2, size=0.0))
    zeros, shift = torch.zeros(4, 3, 12, 12), torch.randn(4, 1, 1, 1)
    with torch.no_grad():
        assert error(compiled(zeros, shift), net(zeros, shift)) < 0.05


def test_a_convolution_alone_says_what_calibrates_it(engine: str) -> None:
    compiled = dynamo_ext.optimize(f"{engine}:int8", options={"min_partition": 1})(
        nn.Conv2d(3, 4, 3)
    )
    with torch.no_grad():
        compiled(torch.randn(1, 3, 8, 8))
    [fallback] = compiled.report().fallbacks
    assert "quantises convolutions in ranges of activations" in fallback.message
    assert "--check-on" in fallback.remedy


def test_int8_without_constant_weights_is_eager(engine: str) -> None:
    compiled = dynamo_ext.optimize(f"{engine}:int8")(lambda x, y: ((x @ y).relu() @ y).relu())
    x = torch.eye(8)
    assert torch.equal(compiled(x, x), x)
    [fallback] = compiled.report().fallbacks
    assert "No product in it has constant weights" in fallback.message
    assert "torch.no_grad()" in fallback.remedy


def test_what_is_compiled_already_stays(engine: str, net: nn.Module) -> None:
    compiled = dynamo_ext.optimize(f"{engine}:int8")(net)
    [given] = batches(1)
    with torch.no_grad():
        found = compiled(*given)
        with dynamo_ext.calibrating():
            assert torch.equal(compiled(*given), found)
    assert engines(compiled.report()) == [(engine, 0)]


def test_weights_that_come_later_leave_the_first_ones_engine(engine: str) -> None:
    def made() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3)).eval()

    def call(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = module(x)
        return found

    first, second = made(), made()
    compiled = dynamo_ext.optimize(f"{engine}:int8")(call)
    images = [(first, torch.randn(2, 3, 12, 12)) for _ in range(3)]
    calibrate(compiled, images)
    x = images[0][1]
    with torch.no_grad():
        rounded = compiled(first, x)
        torch.testing.assert_close(compiled(second, x), second(x))
        assert torch.equal(compiled(first, x), rounded)
        assert error(rounded, first(x)) > 1e-3
    assert all("knows none here" in each.message for each in compiled.report().fallbacks)


def test_nothing_is_kept_where_weights_are_no_constants(net: nn.Module) -> None:
    x, shift = batches(1)[0]
    compiled = dynamo_ext.optimize("onnxrt:int8")(net)
    with dynamo_ext.calibrating():
        torch.testing.assert_close(compiled(x, shift), net(x, shift))
    parts = [part for g in compiled.report().graphs for part in g.partitions]
    assert [part.calibrated for part in parts if part.engine == "onnxrt"] == []


@pytest.mark.usefixtures("older_objects_frozen")
def test_kept_inputs_go_with_the_weights(engine: str) -> None:
    def call(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = module(x).relu().tanh()
        return found

    compiled = dynamo_ext.optimize(f"{engine}:int8")(call)
    net, size = nn.Conv2d(3, 4, 3).eval(), (7, 3, 31, 11)
    calibrate(compiled, [(net, torch.zeros(size))])

    def kept() -> int:
        gc.collect()
        found = [each for each in gc.get_objects() if type(each) is torch.Tensor]
        return sum(each.shape == size for each in found)

    assert kept() == 1
    del net
    assert kept() == 0


def test_a_partition_keeps_a_bounded_number_of_calls(
    engine: str, net: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "MOST_CALLS", 2)
    compiled = dynamo_ext.optimize(f"{engine}:int8")(net)
    calibrate(compiled, batches(4))
    with torch.no_grad():
        compiled(*batches(1)[0])
    assert engines(compiled.report()) == [(engine, 2)]


@pytest.mark.parametrize("engine", ["openvino"], indirect=True)
def test_each_shape_is_calibrated_by_its_own_calls(engine: str, net: nn.Module) -> None:
    compiled = dynamo_ext.optimize(f"{engine}:int8", dynamic=True)(net)
    small = [(x[:2], shift[:2]) for x, shift in batches(3)]
    calibrate(compiled, [*batches(1), *small])
    with torch.no_grad():
        compiled(*small[0])
    assert [part.calibrated for g in compiled.report().graphs for part in g.partitions] == [3]


def test_float32_is_not_calibrated(net: nn.Module) -> None:
    compiled = dynamo_ext.optimize("onnxrt")(net)
    calibrate(compiled, batches(1))
    assert engines(compiled.report()) == [("onnxrt", 0)]
    assert not calibration.is_active()


def test_inputs_that_cannot_be_looked_at_calibrate_nothing(
    net: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise NotImplementedError

    compiled = dynamo_ext.optimize("onnxrt:int8")(net)
    monkeypatch.setattr("dynamo_ext.backends.pipeline.calls.engines.tree_map_only", fails)
    calibrate(compiled, batches(2))
    [given] = batches(1)
    with torch.no_grad():
        assert error(compiled(*given), net(*given)) < 0.05
    assert engines(compiled.report()) == [("onnxrt", 0)]


def test_calibration_inside_of_compiled_code(net: nn.Module) -> None:
    given = batches(3)

    def whole() -> torch.Tensor:
        with dynamo_ext.calibrating():
            for each in given:
                net(*each)
        return net(*given[0])

    compiled = dynamo_ext.optimize("onnxrt:int8")(whole)
    with torch.no_grad():
        found = compiled()
        assert error(found, net(*given[0])) < 0.05
    assert max(calls for _, calls in engines(compiled.report())) == 3
    assert not calibration.is_active()


def test_data_that_leave_the_ranges_later_are_found(engine: str, net: nn.Module) -> None:
    compiled = dynamo_ext.optimize(f"{engine}:int8")(net)
    calibrate(compiled, batches(2))
    [given], [other] = batches(1), batches(1, size=100.0)
    with torch.no_grad():
        for _ in range(calibration.FIRST):
            compiled(*given)
        # The 17th call is checked; the next one that is, is the 129th.
        assert error(compiled(*given), net(*given)) < 0.05
        assert compiled.report().fallbacks == ()
        for _ in range(calibration.FIRST * calibration.FACTOR):
            found = compiled(*other)
        torch.testing.assert_close(found, net(*other))
    [fallback] = compiled.report().fallbacks
    assert (fallback.stage, fallback.count) == ("verify", 1)
    assert "Calibrate on such data, too" in fallback.remedy
    assert engines(compiled.report()) == [("eager", 2)]


def test_what_missed_a_bound_of_the_users_from_the_start_is_not_eagers_later(
    engine: str, net: nn.Module
) -> None:
    [given] = batches(1)
    bound = AccuracyBound.parse("rel<=1e-6")
    compiled = dynamo_ext.optimize(registry.compiler(f"{engine}:int8").within(bound))(net)
    calibrate(compiled, batches(2))
    with torch.no_grad():
        for _ in range(calibration.FIRST + 2):
            assert 1e-4 < error(compiled(*given), net(*given)) < 0.05
    assert compiled.report().fallbacks == ()
    assert [name for name, _ in engines(compiled.report())] == [engine]


def test_integers_that_eager_computes_of_rounded_numbers_are_checked(engine: str) -> None:
    layers = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 512)).eval()

    def best(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = layers(x)
        return scores, scores.argmax(-1)

    compiled, x = dynamo_ext.optimize(f"{engine}:int8")(best), torch.randn(512, 64)
    with torch.no_grad():
        for got, right in zip(compiled(x), best(x), strict=True):
            assert torch.equal(got, right)
    wrong = [each for each in compiled.report().fallbacks if each.stage == "verify"]
    assert ["values differ from eager's" in each.message for each in wrong] == [True]


def test_a_strict_bound_that_is_missed_is_eagers(engine: str, net: nn.Module) -> None:
    [given] = batches(1)
    bound = AccuracyBound.parse("rel<=1e-6")
    compiler = registry.compiler(f"{engine}:int8").within(bound, strict=True)
    compiled = dynamo_ext.optimize(compiler)(net)
    with torch.no_grad():
        assert torch.equal(compiled(*given), net(*given))
    [fallback] = compiled.report().fallbacks
    assert "rel<=1e-06 was asked for" in fallback.message


@pytest.mark.usefixtures("older_objects_frozen")
def test_a_calibrated_engine_goes_with_the_last_reference_to_it(
    engine: str, net: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[Engines, weakref.ref[Any]]] = []
    build = Engines.build

    def seen(self: Engines, *args: Any) -> Any:
        found = build(self, *args)
        made.append((self, weakref.ref(found)))
        return found

    monkeypatch.setattr(Engines, "build", seen)
    compiled = dynamo_ext.optimize(f"{engine}:int8")(net)
    calibrate(compiled, batches(2))
    [given] = batches(1)
    with torch.no_grad():
        compiled(*given)
    gc.collect()
    gc.disable()
    try:
        [(held, kept)] = made
        assert kept() is not None
        held.clear()
        assert kept() is None
    finally:
        gc.enable()
