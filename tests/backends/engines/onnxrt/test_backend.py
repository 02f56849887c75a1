"""ONNX Runtime against eager, on a zoo of inputs."""

from __future__ import annotations

import functools
import logging
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dynamo_ext
from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.onnxrt import quantize
from dynamo_ext.backends.engines.onnxrt import session as onnx_session
from tests.backends import engine_zoo
from tests.needs import needs

Harness = Any

needs("onnxruntime")
onnx_ir = pytest.importorskip("onnx_ir")


def onnxrt(**options: Any) -> Any:
    return registry.compiler("onnxrt", options)


ZOO: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "stack": (lambda x: torch.stack([x, x + 1]).amax(0), (torch.randn(3),)),
    "einsum": (lambda x: torch.einsum("ij,kj->ik", x, x), (torch.randn(3, 6),)),
    "log": (lambda x: x.log() + 1, (torch.tensor([-1.0, 0.0, 1.0, torch.inf]),)),
} | {
    name: engine_zoo.ZOO[name]
    for name in ("int32", "number", "constants", "index", "attention", "causal", "nan", "views")
}


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_gives_what_eager_gives(harness: Harness, name: str, grad: Any) -> None:
    with torch.set_grad_enabled(grad):
        engine_zoo.gives_what_eager_gives(harness, onnxrt(), ZOO[name])


@pytest.mark.parametrize("name", ["float32", "norms", "attention", "causal", "views"])
def test_what_it_should_take_it_takes_whole(harness: Harness, name: str) -> None:
    engine_zoo.takes_whole(harness, onnxrt(), engine_zoo.ZOO[name])


LOSSES: dict[str, Any] = {
    "cross entropy": lambda x: torch.nn.functional.cross_entropy(x, torch.tensor([1, 0, 3])),
    "ignored class": lambda x: torch.nn.functional.cross_entropy(
        x, torch.tensor([1, 0, 3]), ignore_index=1
    ),
    "matrix by vector": lambda x: (x.sin() @ x[0].cos()).sum(),
    "masked attention": lambda x: torch.nn.functional.scaled_dot_product_attention(
        x[None], x[None].sin(), x[None].cos(), attn_mask=torch.ones(3, 3).tril().bool()
    ).sum(),
    "attention": lambda x: (
        torch.nn.functional.scaled_dot_product_attention(*(x[None, None] * n for n in (1, 2, 3)))
        .sin()
        .sum()
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_losses(harness: Harness, name: str) -> None:
    x = torch.randn(3, 5, requires_grad=True)
    (expected,) = torch.autograd.grad(LOSSES[name](x), x)
    compiled = harness.compile(LOSSES[name], onnxrt())
    for _ in range(2):
        (found,) = torch.autograd.grad(compiled(x), x)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert set(harness.stages) <= {"unsupported"}


def test_autocast(harness: Harness) -> None:
    model = engine_zoo.mlp()

    def fn(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    x = torch.randn(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(harness.compile(fn, onnxrt())(x), fn(x), rtol=5e-2, atol=5e-2)


def test_inference_mode(harness: Harness) -> None:
    model = engine_zoo.mlp()
    compiled = harness.compile(model, onnxrt())
    with torch.inference_mode():
        for _ in range(2):
            x = torch.randn(3, 8)
            engine_zoo.same(compiled(x), model(x))


def test_data_dependent_sizes_stay_in_eager(harness: Harness) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x[x > 0] * 2).sum() + x.sin().cos().sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), torch.no_grad():
        compiled = harness.compile(fn, onnxrt())
        for _ in range(3):
            x = torch.randn(20)
            torch.testing.assert_close(compiled(x), fn(x))


def scattered(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).scatter_reduce(0, index, x, "amax")


@pytest.mark.parametrize(
    ("fn", "dtype"),
    [
        # These raise in each call.
        (scattered, torch.float16),
        (scattered, torch.bfloat16),
        (scattered, torch.bool),
        (lambda x, index: torch.zeros_like(x).scatter_add(0, index, x), torch.float16),
        (lambda x, index: torch.zeros_like(x).scatter_add(0, index, x), torch.bfloat16),
        # Fewer values than there are.
        (lambda x, index: (x * 2).scatter(0, index, x).exp(), torch.float32),
    ],
)
def test_scatters_that_are_refused(harness: Harness, fn: Any, dtype: torch.dtype) -> None:
    args = torch.randn(4, 3).to(dtype), torch.tensor([[0, 1, 0], [3, 1, 0]])
    with torch.no_grad():
        compiled = harness.compile(fn, onnxrt(min_partition=1))
        for _ in range(2):
            engine_zoo.same(compiled(*args), fn(*args))
    assert set(harness.stages) == {"unsupported"}


NEGATIVE: dict[str, tuple[Any, torch.Tensor]] = {
    "embedding": (nn.functional.embedding, torch.tensor([0, -1])),
    "index_select": (lambda i, w: w.index_select(0, i), torch.tensor([0, -1])),
    "int32": (lambda i, w: w.index_select(0, i), torch.tensor([0, -2], dtype=torch.int32)),
    "gather": (lambda i, w: w.gather(1, i), torch.tensor([[-2]])),
    "scatter": (lambda i, w: w.scatter(0, i, 1.0), torch.tensor([[-1]])),
}


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("name", NEGATIVE)
def test_a_negative_index_raises_as_in_eager(harness: Harness, name: str, grad: Any) -> None:
    fn, index = NEGATIVE[name]
    weight = torch.randn(4, 3, requires_grad=grad)
    with torch.set_grad_enabled(grad):
        compiled = harness.compile(lambda i, w: fn(i, w).sin(), onnxrt(min_partition=1))
        engine_zoo.same(compiled(index.abs(), weight), fn(index.abs(), weight).sin())
        with pytest.raises(Exception, match=r"\w") as expected:
            fn(index, weight)
        with pytest.raises(expected.type, match=re.escape(str(expected.value))):
            compiled(index, weight)
    assert any(p.engine == "onnxrt" for p in harness.journal.partitions.values())


def test_attention_whose_queries_share_keys(harness: Harness) -> None:
    def fn(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(q * 2, k, k + 1, is_causal=True, enable_gqa=True).sin()

    # After attention with as many heads, whose answer must not stand for this one.
    for heads in (4, 2):
        q, k = torch.randn(2, 4, 5, 8), torch.randn(2, heads, 5, 8)
        with torch.no_grad():
            torch.testing.assert_close(harness.compile(fn, onnxrt())(q, k), fn(q, k))
    assert {p.engine for p in harness.journal.partitions.values()} == {"onnxrt"}
    q.requires_grad_()
    (expected,) = torch.autograd.grad(fn(q, k).sum(), q)
    (found,) = torch.autograd.grad(harness.compile(fn, onnxrt())(q, k).sum(), q)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert set(harness.stages) <= {"unsupported"}


def test_inputs_are_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    example = torch.randn(32)
    seen = []
    lend = onnx_session.to_ort

    def spy(tensor: Any, boolean: Any) -> Any:
        value = lend(tensor, boolean)
        seen.append((value.data_ptr(), tensor.data_ptr()))
        return value

    monkeypatch.setattr(onnx_session, "to_ort", spy)
    run = engine_zoo.lowered("onnxrt", engine_zoo.square, example)
    seen.clear()
    run(example)
    run(example)
    assert [a == b == example.data_ptr() for a, b in seen] == [True, True]


TRAPS: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {
    "a row masked throughout": (
        lambda q, m: torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=m) + 1,
        (torch.randn(1, 2, 3, 8), torch.ones(3, 3).bool()),
        (torch.randn(1, 2, 3, 8), torch.zeros(3, 3).bool()),
    ),
    "the least integer": (
        lambda x, y: x // y + 1,
        (torch.tensor([5, 6]), torch.tensor([2, 3])),
        (torch.tensor([5, -(2**63)]), torch.tensor([1, -1])),
    ),
    "sign of NaN": (lambda x: x.sign() + 1, (torch.ones(2),), (torch.tensor([torch.nan, -1.0]),)),
    "bias of variance": (lambda x: x.var(0), (torch.zeros(5, 2),), (torch.randn(5, 2),)),
}


@pytest.mark.parametrize("name", TRAPS)
def test_data_that_the_first_call_did_not_show(harness: Harness, name: str) -> None:
    fn, first, second = TRAPS[name]
    compiled = harness.compile(fn, onnxrt())
    with torch.no_grad():
        for args in (first, second):
            torch.testing.assert_close(compiled(*args), fn(*args), equal_nan=True)
    assert set(harness.stages) <= {"unsupported"}


def test_dividing_by_zero_raises_as_in_eager(harness: Harness) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.div(x, y, rounding_mode="trunc") + 1

    compiled = harness.compile(fn, onnxrt())
    x = torch.tensor([5, 6])
    with torch.no_grad():
        engine_zoo.same(compiled(x, x), fn(x, x))
        with pytest.raises(RuntimeError, match="ZeroDivision"):
            compiled(x, x * 0)


def test_binding_outputs_to_a_device() -> None:
    graph = torch.fx.symbolic_trace(lambda x, y: (torch.ops.aten.add.Tensor(x, y),))
    example = torch.randn(8)
    for node in graph.graph.nodes:
        node.meta["val"] = example
    run: Any = registry.get("onnxrt").lower(graph, [example, example], {})
    session = run.__self__
    session._run = functools.partial(session._run_bound, device="cpu")
    first, second = run(example, example)[0], run(example, -example)[0]
    torch.testing.assert_close(first, example * 2)
    torch.testing.assert_close(second, example * 0)


class Stem(nn.Module):
    """As BiT begins: what is pooled has no ReLU before it, and zeros around it that count."""

    def __init__(self, pad: nn.Module) -> None:
        super().__init__()
        self.conv, self.pad, self.pool = nn.Conv2d(3, 8, 3), pad, nn.MaxPool2d(3, 2)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.pool(self.pad(self.conv(x) - 3)))


@pytest.mark.parametrize(
    "pad", [nn.ZeroPad2d(1), nn.ConstantPad2d(1, -9.0), nn.ReflectionPad2d(1), nn.Identity()]
)
def test_zeros_around_a_pooling_count(harness: Harness, pad: Any) -> None:
    model, x = Stem(pad).eval(), torch.randn(2, 3, 9, 9)
    with torch.no_grad():
        compiled = harness.compile(model, onnxrt(verify=False))
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert list(harness.engines) == ["onnxrt"]


HUGE = torch.tensor([[2**53 + 1, -7, 7, 3037000500], [2**24 + 1, -1, 0, 5]])
EXTREMES = (100.0, 0.0, -500.0, -600.0, torch.inf, -torch.inf, torch.nan, 88.0, 2000.0, -1e30)
PAIRS = torch.cartesian_prod(*[torch.tensor(EXTREMES)] * 2).t().contiguous()
ROWS = torch.zeros(2, 3, dtype=torch.int64)
NAN = torch.tensor([[float("nan"), 1.0, -0.0], [float("inf"), -float("inf"), -2.5]])


@pytest.mark.parametrize(
    ("fn", "x"),
    [
        (lambda x: torch.addmm(x[0, :2], x[:, :0], x[:0, :2], beta=0.2), torch.ones(3, 2)),
        (lambda x: x[:0].mean(), torch.ones(3, 2)),
        (lambda x: x.sum(1), HUGE),
        (lambda x: x.prod(1), HUGE),
        (lambda x: torch.div(x, 3, rounding_mode="floor"), HUGE),
        (lambda x: torch.fmod(x, 3), HUGE),
        (lambda x: x.amax(1), NAN),
        (lambda x: x.argmax(1), NAN),
        (lambda x: torch.max(x, 1)[1], NAN),
        (lambda x: x**0.5, NAN),
        (lambda x: torch.logaddexp(x[0], x[1]), PAIRS),
        (lambda x: torch.logaddexp(x[0], x[1]), PAIRS.double()),
        (lambda x: torch.logaddexp2(x[0], x[1]), PAIRS),
        (lambda x: torch.logaddexp2(x[0], x[1]), PAIRS.double()),
        (lambda x: x.logsumexp(0), PAIRS),
        (lambda x: x.logcumsumexp(0), PAIRS),
        (lambda x: torch.atan2(x * 0, x), torch.tensor([-1.0, 1.0, -2.0])),
        (lambda x: torch.remainder(x, -1.5), torch.tensor([1e10, -2.5])),
        (lambda x: x // 0.3, NAN),
        (lambda x: torch.div(x, 0.3, rounding_mode="floor"), NAN),
        (lambda x: torch.heaviside(x, torch.tensor(0.5)), NAN),
        (torch.signbit, NAN),
        (lambda x: torch.linalg.vector_norm(x, torch.inf, dim=1), NAN.flip(1)),
        (lambda x: torch.linalg.vector_norm(x, -torch.inf, dim=1), NAN.flip(1)),
        (lambda x: x.clamp(min=0.1), NAN),
        (lambda x: x.clamp_min(0), NAN),
        (lambda x: x.clamp_max(0.1), NAN),
        (lambda x: x.clamp_max(-0.2).clamp_min(0.2), torch.linspace(-1, 1, 9)),
        (lambda x: x.clamp(0.2, 0.5).clamp(-1, 0.1), torch.linspace(-1, 1, 9)),
        (lambda x: x.clamp_max(-0.2).relu() + x.clamp_max(-0.2).clamp(0, 6), torch.ones(3)),
        (lambda x: (x.relu() + 1e-15).log() - (x.relu() - -1e-12).log(), torch.zeros(3)),
        (lambda x: (x * 1.000004 - x) * 1e5, torch.linspace(-1, 1, 9)),
        (lambda x: nn.functional.normalize(x, dim=1), NAN),
        (lambda x: x.new_zeros(1, 3).scatter_reduce(0, ROWS, x, "amax"), NAN),
        (lambda x: x.new_zeros(1, 3).scatter_reduce(0, ROWS, x, "amin"), NAN),
        (lambda x: torch.baddbmm(x, x.isnan() * 1.0, x.isnan().mT * 1.0, beta=0), NAN[None, :, :2]),
        (lambda x: torch.as_strided(x[1:] * 1, (2,), (1,), 0), torch.arange(4.0)),
        (
            lambda x: nn.functional.avg_pool2d(x, 2, divisor_override=3),
            torch.arange(16.0).reshape(1, 1, 4, 4),
        ),
        (
            lambda x: nn.functional.interpolate(
                x, (3, 3), mode="bilinear", align_corners=True, antialias=True
            ),
            torch.arange(64.0).reshape(1, 1, 8, 8),
        ),
    ],
)
def test_what_the_operator_sweep_found_is_right_without_verification(
    harness: Harness, fn: Any, x: torch.Tensor
) -> None:
    with torch.no_grad():
        compiled = harness.compile(fn, onnxrt(verify=False, min_partition=1))
        torch.testing.assert_close(compiled(x), fn(x), equal_nan=True)


def test_numbers_beside_float64_keep_their_precision() -> None:
    def numbers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scaled = (x * 0.1 + 0.7) / 3.3 - 0.2
        return scaled, torch.where(x > 0, x, 0.1), x.clamp(-0.1, 0.1), torch.add(x, x, alpha=0.1)

    x = torch.randn(64, dtype=torch.float64)
    fast = dynamo_ext.optimize("onnxrt")(numbers)
    for found, expected in zip(fast(x), numbers(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-14, atol=1e-15)
    [graph] = fast.report().graphs
    assert sum(part.operations for part in graph.partitions if part.engine == "onnxrt") >= 5


def test_a_number_read_out_of_a_tensor_ends_the_part_and_not_the_graph() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))

    def rolled(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        return layers(layers(x).roll(by, 0)).tanh()

    with torch.no_grad():
        fast = dynamo_ext.optimize("onnxrt")(rolled)
        for by in (3, 1, 4):
            x, number = torch.randn(6, 8), torch.tensor(by)
            torch.testing.assert_close(fast(x, number), rolled(x, number))
    report = fast.report()
    parts = [part.engine for graph in report.graphs for part in graph.partitions]
    assert parts.count("onnxrt") == 2
    assert {fallback.stage for fallback in report.fallbacks} == {"unsupported"}


# Of the wider one the weights are too large for the exporter to fold by default.
@pytest.mark.parametrize("width", [128, 6000])
def test_products_of_constant_weights_in_int8(width: int) -> None:
    model = nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, 8)).eval()
    x = torch.randn(16, 64)
    compiled = dynamo_ext.optimize("onnxrt:int8")(model)
    with torch.no_grad():
        found, exact = compiled(x), model(x)
    report = compiled.report()
    assert [p.engine for g in report.graphs for p in g.partitions] == ["onnxrt"]
    assert report.fallbacks == ()
    assert [graph.lowered for graph in report.graphs] == [2 * 16 * 64 * width + 2 * 16 * width * 8]
    assert 1e-4 < float((found - exact).norm() / exact.norm()) < 0.1


@pytest.mark.parametrize("vnni", ["avx512_vnni", "avx_vnni", ""])
def test_weights_in_int8_are_signed_where_the_processor_has_vnni(
    vnni: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def noted(*given: Any) -> Any:
        made.append(quantized(*given))
        return made[-1]

    quantized = quantize.quantized
    monkeypatch.setattr(quantize, "quantized", noted)
    found = {"avx512_vnni": False, "avx_vnni": False} | ({vnni: True} if vnni else {})
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found, raising=False)
    with torch.no_grad():
        dynamo_ext.optimize("onnxrt:int8")(nn.Linear(64, 64))(torch.randn(4, 64))
    [(model, _)] = made
    matrices = [value for value in model.graph.initializers.values() if len(value.shape) > 1]
    assert [value.dtype.name for value in matrices] == ["INT8" if vnni else "UINT8"]


def test_products_of_the_largest_numbers_in_int8_do_not_overflow() -> None:
    layer = nn.Linear(64, 64)
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(1, 2, 64)[:, None].expand(64, 64))
        compiled = dynamo_ext.optimize("onnxrt:int8", options={"min_partition": 1})(layer)
        x = torch.ones(4, 64)
        torch.testing.assert_close(compiled(x), layer(x), rtol=0.01, atol=0.01)
    assert compiled.report().fallbacks == ()


@pytest.mark.parametrize("precision", ["", ":int8"])
def test_gelu_is_one_operation_of_onnx_runtime(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime

    load, path = onnxruntime.InferenceSession, tmp_path / "optimized.onnx"

    def dumped(model: Any, settings: Any, **kwargs: Any) -> Any:
        settings.optimized_model_filepath = str(path)
        return load(model, settings, **kwargs)

    monkeypatch.setattr(onnxruntime, "InferenceSession", dumped)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).eval()
    with torch.no_grad():
        compiled = dynamo_ext.optimize(f"onnxrt{precision}")(model)
        compiled(torch.randn(4, 64))
    assert compiled.report().fallbacks == ()
    kinds = [node.op_type for node in onnx_ir.load(path).graph]
    assert "Gelu" in kinds
    assert "Erf" not in kinds


def test_products_that_are_not_in_int8_do_not_count_as_such() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(8, 32)

        def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
            y = self.last(x)
            return torch.addmm(bias, y, y.T).tanh() @ y

    compiled = dynamo_ext.optimize("onnxrt:int8")(Both().eval())
    with torch.no_grad():
        compiled(torch.randn(4, 8), torch.randn(4))
    assert [graph.lowered for graph in compiled.report().graphs] == [2 * 4 * 8 * 32]


def test_quantising_configures_no_logging(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    with torch.no_grad():
        dynamo_ext.optimize("onnxrt:int8")(nn.Linear(64, 64))(torch.randn(4, 64))
    assert logging.root.handlers == []
    assert not logging.root.disabled
    assert capfd.readouterr().err == ""


def test_an_outlier_that_int8_cannot_hold_is_eagers() -> None:
    layer = nn.Linear(64, 8, bias=False).eval()
    with torch.no_grad():
        layer.weight[:, 0] = 0.0
    x = torch.randn(16, 64)
    # All else is less than one step of its scale.
    x[:, 0] = 1e5
    compiled = dynamo_ext.optimize("onnxrt:int8", options={"min_partition": 1})(layer)
    with torch.no_grad():
        assert torch.equal(compiled(x), layer(x))
    [fallback] = compiled.report().fallbacks
    assert fallback.stage == "verify"
    assert "int8 may have 0.2" in fallback.message
