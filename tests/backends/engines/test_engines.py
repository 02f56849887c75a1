"""Every CPU engine against eager: small functions about one trait each, and small models."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from benchmarks.backends import ENGINES, without
from dynamo_ext.backends import registry
from dynamo_ext.backends.base import Support
from dynamo_ext.backends.support import trial
from tests.backends import engine_zoo
from tests.backends.own_process import silent
from tests.crosses import crossed
from tests.needs import needs_backend

Harness = Any
# TorchScript's own tests have gradients; ofi does not train.
TRAINS = without("ts", "ofi")


def compiler(name: str, **options: Any) -> Any:
    needs_backend(name)
    return registry.compiler(name, options)


@pytest.mark.sweep
@pytest.mark.parametrize(("engine", "name"), crossed(ENGINES, engine_zoo.ZOO))
def test_the_zoo_gives_what_eager_gives(harness: Harness, engine: str, name: str) -> None:
    with torch.no_grad():
        engine_zoo.gives_what_eager_gives(
            harness, compiler(engine, verify=False, min_partition=1), engine_zoo.ZOO[name]
        )


def scaled(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return x * by + 1


class Scaled(nn.Module):
    def __init__(self, by: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("by", by)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(x, self.by)


NEGATED = {
    "one element": torch.tensor([3 + 4j]).conj().imag,
    "many": torch._neg_view(torch.randn(30, 40)),
    "bfloat16": torch._neg_view(torch.randn(3, 4).bfloat16()),
}


@pytest.mark.parametrize(("engine", "name"), crossed(ENGINES, NEGATED))
def test_what_is_negated_lazily_has_the_right_sign(
    harness: Harness, engine: str, name: str
) -> None:
    """As a weight, as an input, as a tensor of the surroundings, and after one that is not."""
    lazy = NEGATED[name]
    assert lazy.is_neg()
    assert lazy.is_contiguous()
    plain = lazy.resolve_neg()
    made = compiler(engine, verify=False, min_partition=1)
    with torch.no_grad():
        model = Scaled(lazy)
        torch.testing.assert_close(harness.compile(model, made)(plain), model(plain))
        # No parts are known of a graph that was given up whole.
        assert harness.engines
        for fn, args in (
            (scaled, (plain, lazy)),
            (scaled, (lazy, plain)),
            (lambda x: scaled(x, lazy), (plain,)),
            (lambda z: scaled(z.conj().imag, plain), (torch.complex(plain.float(), lazy.float()),)),
        ):
            torch.testing.assert_close(harness.compile(fn, made)(*args), fn(*args))


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scaled = self.weight.softmax(-1) * 2
        return x @ scaled, scaled, torch.arange(12.0).exp(), torch.zeros_like(x).exp() - 1


@pytest.mark.parametrize("engine", ENGINES)
def test_results_that_depend_on_no_input_are_the_caller_s_to_write_to(
    harness: Harness, engine: str
) -> None:
    model = Constant().eval()
    compiled = harness.compile(model, compiler(engine, min_partition=1))
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(2, 4)
            found, expected = compiled(x), model(x)
            for mine, theirs in zip(found, expected, strict=True):
                engine_zoo.same(mine, theirs)
                mine.fill_(99.0)
    assert not set(harness.stages) - {"unsupported"}


@pytest.mark.parametrize(("engine", "name"), crossed(ENGINES, engine_zoo.MODELS))
def test_models_run_in_one_part_and_follow_their_weights(
    harness: Harness, engine: str, name: str
) -> None:
    make, shape = engine_zoo.MODELS[name]
    engine_zoo.follows_its_weights(harness, compiler(engine), make, lambda: torch.randn(shape))


@pytest.mark.parametrize(
    ("engine", "name", "train"),
    [
        *((engine, name, False) for engine, name in crossed(TRAINS, engine_zoo.MODELS)),
        # Of these models only one does otherwise in training: it has a batch normalisation.
        *((engine, "cnn", True) for engine in TRAINS),
    ],
)
def test_gradients(harness: Harness, engine: str, name: str, train: Any) -> None:
    make, shape = engine_zoo.MODELS[name]
    models = make().train(train), make().train(train)
    engine_zoo.has_eagers_gradients(harness, compiler(engine), models, lambda: torch.randn(shape))
    assert harness.engines[engine]


@pytest.mark.parametrize("engine", ["openvino", "tvm"])
def test_an_lstm(harness: Harness, engine: str) -> None:
    """Dynamo leaves recurrent modules out of graphs unless it is told to take them in."""
    model = engine_zoo.Recurrent().eval()
    with torch._dynamo.config.patch(allow_rnn=True), torch.no_grad():
        compiled = harness.compile(model, compiler(engine))
        for _ in range(2):
            x = torch.randn(2, 5, 8)
            engine_zoo.same(compiled(x), model(x))
    assert set(harness.stages) <= {"unsupported"}


@pytest.mark.parametrize("engine", without("xla"))
def test_one_engine_serves_every_batch_or_each_shape_has_its_own(
    harness: Harness, engine: str
) -> None:
    model = engine_zoo.mlp()
    compiled = harness.compile(model, compiler(engine), dynamic=True)
    with torch.no_grad():
        for batch in (3, 5, 64, 64, 3):
            x = torch.randn(batch, 8)
            engine_zoo.same(compiled(x), model(x))
    (partition,) = harness.journal.partitions.values()
    built = 1 if registry.get(engine).dynamic_shapes else 3
    assert (partition.engine, partition.engines_built) == (engine, built)


@pytest.mark.parametrize("engine", ["ts", "onnxrt"])
def test_sizes_as_arguments_of_operations(harness: Harness, engine: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x.reshape(x.shape[0] * 2, -1) + x.shape[0]).sum(1).expand(3, -1) * 2

    compiled = harness.compile(fn, compiler(engine), dynamic=True)
    with torch.no_grad():
        for batch in (3, 5, 7):
            x = torch.randn(batch, 8)
            engine_zoo.same(compiled(x), fn(x))
    assert not harness.stages


@pytest.mark.parametrize("engine", ENGINES)
def test_random_numbers_stay_with_torch(harness: Harness, engine: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = (x @ x).sin().cos().exp()
        a, b = torch.rand_like(y @ y), torch.rand(4, 4)
        return ((y + torch.normal(a, 1.0)) @ x).sin().cos() * b - F.dropout(x, 0.5)

    x = torch.randn(4, 4) / 4
    compiled = harness.compile(fn, compiler(engine))
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            expected = fn(x)
            torch.manual_seed(seed)
            engine_zoo.same(compiled(x), expected)
    assert harness.engines[engine] > 5
    assert harness.engines["eager"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_changed_input_is_changed_as_in_eager(harness: Harness, engine: str) -> None:
    def change(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0] = 5
        x.mul_(2).add_(1)
        return y.mul_(2).add_(x).exp()

    mine, theirs = torch.ones(3, 3), torch.ones(3, 3)
    compiled = harness.compile(change, compiler(engine, min_partition=1))
    with torch.no_grad():
        for _ in range(2):
            engine_zoo.same(compiled(mine), change(theirs))
            engine_zoo.same(mine, theirs)
    assert engine in harness.engines


@pytest.mark.parametrize("engine", ENGINES)
def test_results_are_in_memory_of_their_own(engine: str, harness: Harness) -> None:
    weight = torch.nn.Linear(3, 3).weight

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        own = x + 1, x.clone(), x * 1, x + 0, y, y.clone(), x.clone().view(-1)
        return *own, weight * 2, weight.clone(), torch.full((2, 2), 3.0), (weight * 3).t()

    compiled = harness.compile(fn, compiler(engine, min_partition=1))
    x = torch.randn(3, 3)
    with torch.no_grad():
        for _ in range(4):
            found, expected = compiled(x), fn(x)
            assert len({each.data_ptr() for each in (*found, x, weight)}) == len(found) + 2
            for each, right in zip(found, expected, strict=True):
                engine_zoo.same(each, right)
                each.add_(7)
    assert engine in harness.engines
    assert "verify" not in harness.stages


@pytest.mark.parametrize("engine", without("ts", "ofi"))
def test_an_operation_is_tried_once(
    engine: str, fresh_answers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = compiler(engine).backend
    node = engine_zoo.node_of(torch.ops.aten.exp.default, torch.randn(3))
    state = torch.get_rng_state()
    assert backend.supports(node) == Support(supported=True)
    assert torch.equal(torch.get_rng_state(), state)
    monkeypatch.setattr(trial, "disagreement", lambda *_, **__: pytest.fail("tried twice"))
    assert backend.supports(node).supported


ATEN = torch.ops.aten
COMPLEX = torch.randn(3) * 1j
REFUSED: list[tuple[str, Any, torch.Tensor, tuple[Any, ...], str]] = [
    ("onnxrt", ATEN.sin.default, COMPLEX, (), "ONNX Runtime takes no complex64 tensors."),
    ("openvino", ATEN.sin.default, COMPLEX, (), "not compute complex64"),
    ("openvino", ATEN.sin.default, torch.randn(3).double(), (), "not compute float64"),
    ("openvino", ATEN.mul.Tensor, torch.arange(3), (3,), "not compute int64"),
    ("openvino", ATEN.as_strided.default, torch.randn(4), ((2,), (2,)), "memory"),
    ("openvino", ATEN.sign.default, torch.randn(3), (), "NaN values"),
    ("openvino", ATEN.frac.default, torch.randn(3), (), "frac"),
    ("tvm", ATEN.sin.default, COMPLEX, (), "not given complex64"),
    ("tvm", ATEN.sin.default, torch.randn(3).bfloat16(), (), "not given bfloat16"),
    ("tvm", ATEN.sin.default, torch.randn(0), (), "without elements"),
    ("tvm", ATEN.frac.default, torch.randn(3), (), "frac"),
    ("xla", ATEN.sin.default, COMPLEX, (), "complex64"),
    ("xla", ATEN.as_strided.default, torch.randn(4), ((2,), (2,)), "memory"),
    ("xla", ATEN.linalg_inv_ex.default, torch.eye(3), (), "raise"),
    ("xla", ATEN.sin.default, torch.empty(3, device="meta"), (), "meta devices"),
    ("xla", ATEN.special_airy_ai.default, torch.randn(3), (), "no lowering"),
    ("onnx2tf", ATEN.sin.default, COMPLEX, (), "No complex64"),
    ("onnx2tf", ATEN.sign.default, torch.randn(3), (), "NaN values"),
    ("onnx2tf", ATEN.topk.default, torch.randn(3, 7), (2,), "TopK is not converted"),
    (
        "onnx2tf", ATEN.reflection_pad1d.default, torch.randn(1, 1, 5), ([1, 1],),
        "Pad with mode reflect is not converted to TensorFlow",
    ),
    (
        "onnx2tf", ATEN.max_pool2d_with_indices.default, torch.randn(1, 1, 8, 8),
        ([3, 3], [2, 2], [1, 1], [1, 1], True), "ceil_mode 1",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "op", "value", "rest", "reason"),
    REFUSED,
    ids=[f"{engine}-{reason}" for engine, *_, reason in REFUSED],
)
def test_what_an_engine_refuses_and_why(
    engine: str, op: Any, value: torch.Tensor, rest: tuple[Any, ...], reason: str
) -> None:
    needs_backend(engine)
    answer = registry.get(engine).supports(engine_zoo.node_of(op, value, *rest))
    assert not answer
    assert reason in answer.reason


TABLE = torch.randn(5, 3)
RAISES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "embedding": (lambda i: F.embedding(i, TABLE) * 2 + 1, (5, -1)),
    "index": (lambda i: TABLE[i] * 2 + 1, (5, -6)),
    "index_select": (lambda i: TABLE.index_select(0, i) * 2 + 1, (5, -1)),
    "gather": (lambda i: TABLE.gather(0, i[:, None]) * 2 + 1, (5, -1)),
    "scatter": (lambda i: TABLE.scatter(0, i[:, None], 1.0) * 2 + 1, (5, -1)),
    "division": (lambda i: (i + 5) // (i + 1) * 2 + 1, (-1,)),
}
"""What looks at numbers, and those that must not be among them; of other engines, in their tests."""


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("ts", "index"),
        *(("xla", name) for name in RAISES),
        *(("onnx2tf", name) for name in ("embedding", "gather", "division")),
        *(("tvm", name) for name in ("embedding", "gather", "index_select")),
    ],
)
def test_where_torch_raises_an_engine_raises(harness: Harness, engine: str, name: str) -> None:
    fn, wrong = RAISES[name]
    compiled = harness.compile(fn, compiler(engine, min_partition=1))
    good = torch.tensor([0, 4, 1])
    with torch.no_grad():
        for number in wrong:
            engine_zoo.same(compiled(good), fn(good))
            for call in (fn, compiled):
                with pytest.raises((IndexError, RuntimeError)):
                    call(torch.tensor([0, number, 1]))
        engine_zoo.same(compiled(good), fn(good))
    assert set(harness.engines) == {engine}
    assert not harness.stages


@pytest.mark.parametrize("engine", ["onnxrt", "openvino", "onnx2tf"])
def test_weights_are_inputs_where_they_are_not_to_be_frozen(harness: Harness, engine: str) -> None:
    model, x = engine_zoo.mlp(), torch.randn(2, 8)
    with torch.no_grad():
        engine_zoo.same(harness.compile(model, compiler(engine, freeze="false"))(x), model(x))
    (partition,) = harness.journal.partitions.values()
    assert partition.frozen == 0


@pytest.mark.parametrize("engine", [name for name in ENGINES if registry.get(name).packages])
def test_a_package_that_is_missing_is_named(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    backend = registry.get(engine)
    answer = registry.probe(backend)
    assert not answer.available
    assert answer.reason == f"{' and '.join(backend.packages)} cannot be imported."
    assert answer.remedy == f'pip install "dynamo-ext[{engine}]"'


STATE = """
import os, sys, torch, torch._dynamo
from torch import nn
torch.set_num_threads(2)
for name in [name for name in os.environ if name.startswith("TVM_")]:
    del os.environ[name]
def state():
    settings = {name: text for name, text in os.environ.items() if not name.startswith("TVM_")}
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return (torch.get_num_threads(), torch.get_num_interop_threads(), settings,
            torch._dynamo.config.save_config(), torch.get_rng_state().sum().item(), cores,
            torch.get_default_device(), torch.get_default_dtype(), torch.is_grad_enabled(),
            torch._C._get_graph_executor_optimize())
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)).eval()
x = torch.randn(2, 8)
before = state()
from dynamo_ext.backends import registry
assert registry.probe(registry.get("ENGINE")).available
assert "tensorflow" not in sys.modules
with torch.no_grad():
    found = torch.compile(model, backend=registry.compiler("ENGINE"))(x)
    torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)
assert state() == before
assert "openvino.torch" not in sys.modules and "openvino_telemetry" not in sys.modules
if "tensorflow" in sys.modules:
    assert sys.modules["tensorflow"].config.threading.get_intra_op_parallelism_threads() == 2
if "ENGINE" == "tvm":
    assert os.environ["TVM_NUM_THREADS"] == "2" and "tvm.s_tir.tensor_intrin" not in sys.modules
"""


# XLA has a test of its own, of more; `ts` and `ofi` of TorchScript's settings.
@pytest.mark.parametrize("engine", without("ts", "ofi", "xla"))
def test_torch_keeps_its_state_and_the_user_an_empty_screen(engine: str) -> None:
    needs_backend(engine)
    silent(STATE.replace("ENGINE", engine))


# The others are in test_training, with larger models.
@pytest.mark.parametrize("engine", without("ts", "ofi", "onnxrt", "tvm", "xla"))
def test_ten_steps_follow_eager(harness: Harness, engine: str) -> None:
    losses = []
    for made in (None, compiler(engine)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 1))
        step = torch.optim.SGD(model.parameters(), lr=0.1)
        run = harness.compile(model, made) if made else model
        curve = []
        for _ in range(10):
            loss = (run(torch.randn(4, 8)) - 1).square().mean()
            step.zero_grad()
            loss.backward()
            step.step()
            curve.append(loss.item())
        losses.append(curve)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.parametrize("engine", ["openvino", "tvm", "xla"])
def test_a_scale_by_a_symbolic_size_is_tried_as_the_number_it_was(
    harness: Harness, engine: str, capfd: pytest.CaptureFixture[str]
) -> None:
    norm = nn.BatchNorm1d(3).train()
    compiled = harness.compile(norm, compiler(engine))
    with torch.no_grad():
        for batch in (4, 3, 5):
            x = torch.randn(batch, 3, 7)
            twin = copy.deepcopy(norm)
            found = compiled(x)
            engine_zoo.same(found, twin(x))
            engine_zoo.same(norm.running_var, twin.running_var)
    assert "Traceback" not in capfd.readouterr().err
    assert not [f for f in harness.journal.fallbacks.values() if "No data were found" in f.message]


@pytest.mark.parametrize("engine", ENGINES)
def test_threads_share_an_engine(engine: str) -> None:
    needs_backend(engine)
    run = engine_zoo.lowered(engine, engine_zoo.square, torch.randn(64))
    wrong = []

    def work(number: int) -> None:
        x = torch.full((64,), float(number))
        wrong.extend(number for _ in range(50) if not torch.equal(run(x)[0], x * x))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert not wrong
