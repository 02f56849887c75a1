"""OpenVINO against eager, on a zoo of inputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import dynamo_ext
from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.openvino import backend as module
from dynamo_ext.backends.engines.openvino import ran, session
from dynamo_ext.backends.support import trial
from tests.backends.engine_zoo import ZOO as COMMON
from tests.backends.engine_zoo import lowered, mlp, node_of, square, takes_whole
from tests.backends.own_process import silent

Harness = Any
F = nn.functional


def openvino(**options: Any) -> Any:
    return registry.compiler("openvino", options)


class TestEmbedding:
    """Rows by number: torch looks at the numbers, since OpenVINO has 32 bits of them."""

    def test_it_is_in_the_engine(self) -> None:
        table, linear = nn.Embedding(50, 8), nn.Linear(8, 8)
        fast = dynamo_ext.optimize("openvino")(lambda rows: linear(table(rows).relu()))
        rows = torch.tensor([[0, 49, 7], [1, 1, 2]])
        with torch.no_grad():
            torch.testing.assert_close(fast(rows), linear(table(rows).relu()))
            (part,) = fast.report().graphs[0].partitions
            assert part.engine == "openvino"
            assert "aten.embedding.default" in part.targets

    @pytest.mark.parametrize("wrong", [50, -1, 2**32 + 3, -(2**32) + 3, 2**63 - 1])
    def test_a_row_that_is_not_there_is_torchs_error(self, wrong: int) -> None:
        table, linear = nn.Embedding(50, 8), nn.Linear(8, 8)
        fast = dynamo_ext.optimize("openvino")(lambda rows: linear(table(rows).relu()))
        with torch.no_grad():
            fast(torch.tensor([1, 2, 3]))
            with pytest.raises(IndexError):
                fast(torch.tensor([1, wrong, 3]))
            rows = torch.tensor([3, 2, 1])
            torch.testing.assert_close(fast(rows), linear(table(rows).relu()))

    def test_of_integers_it_stays_in_eager(self) -> None:
        table = torch.arange(12).reshape(6, 2) + 2**40
        fast = dynamo_ext.optimize("openvino")(lambda rows: F.embedding(rows, table) + 1)
        rows = torch.tensor([5, 0])
        assert torch.equal(fast(rows), F.embedding(rows, table) + 1)


class TestIntegers:
    """Those that are only moved, compared, or index are exact in the engine, or eager's."""

    EDGES = torch.tensor([[0, 1, 2, 1], [2, 2, 0, 1]])

    @staticmethod
    def messages(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """One layer of a graph network."""
        sent = x.index_select(0, edges[0]) * (edges[0] != edges[1]).unsqueeze(-1)
        to = edges[1].view(-1, 1).expand(-1, x.shape[1])
        return torch.zeros_like(x).scatter_add(0, to, sent).relu()

    def test_a_graph_network_is_in_the_engine(self) -> None:
        fast, x = dynamo_ext.optimize("openvino")(self.messages), torch.randn(3, 8)
        with torch.no_grad():
            for edges in (self.EDGES, self.EDGES.flip(0), self.EDGES * 0):
                torch.testing.assert_close(fast(x, edges), self.messages(x, edges))
            (part,) = fast.report().graphs[0].partitions
            assert part.engine == "openvino"
            for wrong in (3, -1, 2**32, 2**63 - 1):
                bad = self.EDGES.clone()
                bad[1, 2] = wrong
                with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)"):
                    fast(x, bad)
            torch.testing.assert_close(fast(x, self.EDGES), self.messages(x, self.EDGES))

    def test_large_scatters_are_eagers(self) -> None:
        """In OpenVINO they take three times as long, and their expanded indices are written out."""
        fast, x = dynamo_ext.optimize("openvino")(self.messages), torch.randn(64, 64)
        edges = torch.randint(0, 64, (2, 200))
        with torch.no_grad():
            torch.testing.assert_close(fast(x, edges), self.messages(x, edges))
        parts = fast.report().graphs[0].partitions
        left = {name for part in parts if part.engine == "eager" for name in part.targets}
        assert {"aten.expand.default", "aten.scatter_add.default"} <= left

    @pytest.mark.parametrize("far", [2**24 + 1, 2**31, 2**40 + 1, -(2**31) - 1, -(2**63)])
    @pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
    def test_large_ones_are_eagers(self, dtype: torch.dtype, far: int) -> None:
        if abs(far) > torch.iinfo(dtype).max:
            far = 2**31 - 1

        def moved(i: torch.Tensor) -> Any:
            cut = torch.cat([i[1:], i[:1]]).view(2, -1)
            return cut, cut.t(), i.eq(far), i.ne(far - 1), i.to(torch.float32)

        fast = dynamo_ext.optimize("openvino", options={"verify": False})(moved)
        small, large = torch.tensor([1, -2, 3, 4], dtype=dtype), torch.full((4,), far).to(dtype)
        with torch.no_grad():
            for given in (small, large, large - 1, small):
                assert all(map(torch.equal, fast(given), moved(given)))

    def test_places_that_are_computed_index_in_eager(self) -> None:
        i = torch.tensor([0, 1, 2])
        for fn in (
            lambda x, _: x.index_select(0, (x * 2).argmax(0).view(-1)) * 2 + 1,
            lambda x, _: x.index_select(0, (x * 2).argmax(0).int()) * 2 + 1,
            lambda x, i: x.index_select(0, (i == 0).long()) * 2 + 1,
            lambda x, _: x.index_select(0, (x[0] > 0).long()) * 2 + 1,
        ):
            fast = dynamo_ext.optimize("openvino", options={"min_partition": 1})(fn)
            with torch.no_grad():
                for x in (torch.eye(3), -torch.eye(3)):
                    torch.testing.assert_close(fast(x, i), fn(x, i))
            said = {f.operator: f.message for f in fast.report().fallbacks}
            assert "before OpenVINO has computed them" in said["aten.index_select.default"]

    def test_a_comparison_with_a_fraction(self) -> None:
        def fn(i: torch.Tensor) -> Any:
            return i >= 1.5, i > -1.5, i >= -0.5, i > 1, i >= 2, i < 1.5

        fast, i = (
            dynamo_ext.optimize("openvino", options={"verify": False})(fn),
            torch.arange(-4, 4),
        )
        assert all(map(torch.equal, fast(i), fn(i)))


GROUP_NORMS = """
import torch, dynamo_ext
from torch.nn import functional as F
x, by = torch.randn(2, 32, 8, 8), torch.randn(2, 32, 1, 1)
scale, shift = torch.rand(32), torch.rand(32)
def film(x, by):
    return F.group_norm(x, 4, scale, shift) * (1 + by) + by
def halves(x, by):
    return x.sigmoid() * F.group_norm(x, 8, None, shift)
def less(x, by):
    return F.group_norm(x, 32, scale) - by.abs()
def rows(x, by):
    return F.group_norm(x[:, :, 0, 0], 4) + by[:, :, 0, 0].sigmoid()
for fn in (film, halves, less, rows):
    fast = dynamo_ext.optimize("openvino", options={"min_partition": 0})(fn)
    with torch.no_grad():
        torch.testing.assert_close(fast(x, by), fn(x, by))
    assert {p.engine for g in fast.report().graphs for p in g.partitions} == {"openvino"}
    assert not fast.report().fallbacks
"""


DOT_PRODUCT = """
def dot(x, y):
    return torch.einsum("...i,...i->...", x, y), (x[None] @ y[:, None] + 1).view(()) * 2

x = torch.arange(3.0)
with torch.no_grad():
    found = torch.compile(dot, backend="dx_openvino")(x, x + 1)
assert [float(each) for each in found] == [8.0, 18.0], found
"""


COPY_INTO_A_NUMBER = """
def means(x):
    y, n = torch.zeros(2), torch.zeros(())
    y[0] = x.sum()
    n.copy_(x.mean())
    return y * 2, n + 1
x = torch.randn(3)
run = dynamo_ext.optimize("openvino", options={"min_partition": 1})(means)
with torch.no_grad():
    torch.testing.assert_close(run(x), means(x))
"""


def test_what_ended_the_process_once_does_not() -> None:
    silent(GROUP_NORMS + DOT_PRODUCT + COPY_INTO_A_NUMBER)


@pytest.mark.parametrize("name", ["float32", "norms", "attention", "alpha", "bfloat16"])
def test_what_it_should_take_it_takes_whole(harness: Harness, name: str) -> None:
    takes_whole(harness, openvino(), COMMON[name])


@pytest.mark.parametrize(("size", "lent"), [(2048, 3), (32, 2)])
def test_inputs_and_outputs_are_lent(monkeypatch: pytest.MonkeyPatch, size: int, lent: int) -> None:
    """Each output of some KiB is lent; the place of a smaller one is lent once, and copied."""
    seen = []
    lend = session.lend

    def spy(tensor: torch.Tensor) -> Any:
        value = lend(tensor)
        seen.append(value.data.ctypes.data == tensor.data_ptr())
        return value

    monkeypatch.setattr(session, "lend", spy)
    example = torch.randn(size)
    run = lowered("openvino", square, example)
    # Both are held: memory that is free would be lent once for the two.
    results = [run(example), run(example)]
    # The input lies where it lay, so it is lent once; each output is a tensor of its own.
    assert seen == [True] * lent
    del results


def test_another_tensor_at_the_same_address_is_read_anew() -> None:
    run = lowered("openvino", square, torch.randn(32))
    memory = torch.empty(32)
    for number in range(5):
        x = memory.view(32).fill_(number)
        assert torch.equal(run(x)[0], x * x)
        x.add_(1)
        assert torch.equal(run(x)[0], x * x)


def test_a_session_forgets_addresses_beyond_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MOST_ADDRESSES", 2)
    run = lowered("openvino", square, torch.randn(32))
    tensors = [torch.randn(32) for _ in range(7)]
    for x in [*tensors, *reversed(tensors)]:
        assert torch.equal(run(x)[0], x * x)


def test_infinity_is_tried_where_other_engines_are_excused(
    monkeypatch: Any, fresh_answers: None
) -> None:
    # What torch's own kernel answers there differs by processor, so that is not asked here.
    node = node_of(torch.ops.aten.gelu.default, torch.randn(7, 11))
    tried: list[str] = []
    made = trial._values

    def spy(source: Any, name: str, *rest: Any) -> torch.Tensor:
        tried.append(name)
        return made(source, name, *rest)

    monkeypatch.setattr(trial, "_values", spy)
    monkeypatch.setattr(trial.verdict, "disagreement", lambda *_, **__: "")
    assert module.OpenVinoBackend().supports(node).supported
    assert "infinite" in tried
    tried.clear()
    assert not trial.disagreement(node, registry.get("eager").lower_for, "Another")
    assert tried
    assert "infinite" not in tried


def test_probe_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = registry.get("openvino").probe()
    assert (found.available, found.device) == (True, "cpu")
    monkeypatch.setattr(session, "core", lambda: SimpleNamespace(available_devices=[]))
    assert "no CPU plugin" in registry.get("openvino").probe().reason


def test_options_reach_the_engine(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    compile_model = session.compiled
    monkeypatch.setattr(
        session,
        "compiled",
        lambda model, options: seen.append(options.get("threads")) or compile_model(model, options),
    )
    with torch.no_grad():
        harness.compile(mlp(), openvino(threads="1"))(torch.randn(2, 8))
    assert seen[-1] == 1


@pytest.mark.parametrize(
    ("fn", "inputs"),
    [
        (torch.heaviside, (torch.zeros(0), torch.ones(1))),
        (torch.heaviside, (torch.ones(3, 0), torch.ones(3, 1))),
        (lambda x: torch.fmod(x, 1.5), (torch.tensor([1e10, -2.5]),)),
        (lambda x: torch.remainder(x, -1.5), (torch.tensor([1e10, -2.5]),)),
        (lambda x: torch.atan2(x * 0, x), (torch.tensor([-1.0, 1.0, -2.0]),)),
        (lambda x: x.any(), (torch.full((3,), torch.nan),)),
    ],
)
def test_what_the_operator_sweep_found_is_right_without_verification(
    harness: Any, fn: Any, inputs: tuple[torch.Tensor, ...]
) -> None:
    compiler = registry.compiler("openvino", {"verify": False, "min_partition": 1})
    with torch.no_grad():
        compiled = harness.compile(fn, compiler)
        torch.testing.assert_close(compiled(*inputs), fn(*inputs), equal_nan=True)


@pytest.mark.parametrize(
    ("precision", "capability"), [("bf16", "BF16"), ("fp16", "FP16"), ("int8", "INT8")]
)
def test_a_precision_is_openvinos_hint(
    precision: str, capability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    can = capability in session.core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    reason = module.BACKEND.lacks_precision(precision)
    assert reason == ("" if can else f"OpenVINO computes in {precision} only where the processor "
                      "does, and this does not.")  # fmt: skip
    given: list[str] = []

    class Core:
        def compile_model(self, model: Any, device: str, settings: dict[str, Any]) -> Any:
            del model, device
            given.append(settings["INFERENCE_PRECISION_HINT"])

    monkeypatch.setattr(session, "core", Core)
    for options in ({"precision": precision}, {}):
        session.compiled(None, options)
    assert given == [{"bf16": "bf16", "fp16": "f16", "int8": "f32"}[precision], "f32"]


def _int8_products(request: Any) -> list[str]:
    ran = request.get_compiled_model().get_runtime_model().get_ops()
    facts = [{k: str(v.value) for k, v in op.get_rt_info().items()} for op in ran]
    return [f["runtimePrecision"] for f in facts if f.get("layerType") == "FullyConnected"]


@pytest.mark.parametrize("rows", [1, 16])
def test_products_of_constant_weights_in_int8(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    precisions: list[list[str]] = []

    class Seen(session.Session):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            precisions.append(_int8_products(self._request))

    class Split(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(512, 256))
            self.last = nn.Linear(256, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            # One weight that is transposed, halves of one, and one that is neither.
            gate, value = (x @ half.T for half in self.weight.chunk(2))
            return self.last((gate.sigmoid() * value) @ self.weight[256:])

    monkeypatch.setattr(session, "Session", Seen)
    model, x = Split().eval(), torch.randn(rows, 256)
    compiled = dynamo_ext.optimize("openvino:int8")(model)
    with torch.no_grad():
        found, exact = compiled(x), model(x)
    report = compiled.report()
    assert [p.engine for g in report.graphs for p in g.partitions] == ["openvino"]
    assert report.fallbacks == ()
    assert 1e-4 < float((found - exact).norm() / exact.norm()) < 0.1
    assert precisions[-1] == ["i8"] * 4


def test_weights_that_are_not_finite_stay_as_they_are_in_int8() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 8)).eval()
    with torch.no_grad():
        model[0].weight[3, 5] = float("inf")
        compiled = dynamo_ext.optimize("openvino:int8")(model)
        x = torch.randn(4, 64)
        torch.testing.assert_close(compiled(x), model(x), atol=0.05, rtol=0.05)
    assert compiled.report().fallbacks == ()


def test_a_recurrent_cell_that_begins_with_zeros_runs_in_int8() -> None:
    cell = nn.LSTMCell(16, 16).eval()

    def states(x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(4, 16), torch.zeros(4, 16)
        for each in x:
            state = cell(each, state)
        return state[0]

    compiled = dynamo_ext.optimize("openvino:int8")(states)
    x = torch.randn(3, 4, 16)
    with torch.no_grad():
        found, exact = compiled(x), states(x)
    assert compiled.report().fallbacks == ()
    assert 1e-4 < float((found - exact).norm() / exact.norm()) < 0.05


def test_what_openvino_refuses_is_said_without_places_in_its_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Core:
        def compile_model(self, *_: Any) -> Any:
            message = "Exception from src/a.cpp:1:\nException from src/b.cpp:2:\nIt is wrong.\n"
            raise RuntimeError(message)

    monkeypatch.setattr(session, "core", Core)
    with pytest.raises(RuntimeError, match=r"^It is wrong\.$"):
        session.compiled(None, {})


def test_columns_of_zeros_are_zeros_in_int8() -> None:
    layer = nn.Linear(64, 8, bias=False).eval()
    with torch.no_grad():
        layer.weight[2] = 0.0
        compiled = dynamo_ext.optimize("openvino:int8", options={"min_partition": 1})(layer)
        assert not compiled(torch.randn(4, 64))[:, 2].any()
    assert compiled.report().fallbacks == ()


class Both(nn.Module):
    """Products with weights, and one of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 3)
        self.linear = nn.Linear(6, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(F.relu(self.conv(x)))
        return (y @ y.transpose(1, 2)).tanh()


CONVOLUTION, LINEAR, PRODUCT = (2 * 2 * n for n in (8 * 6 * 8 * 3, 8 * 6 * 16, 8 * 16 * 8))


@pytest.mark.parametrize(
    ("precision", "operations"),
    [("bf16", CONVOLUTION + LINEAR + PRODUCT), ("int8", LINEAR), ("float32", None)],
)
def test_products_that_ran_in_a_precision_are_counted(
    precision: str, operations: int | None
) -> None:
    if reason := module.BACKEND.lacks_precision(precision) if operations else "":
        pytest.skip(reason)
    compiled = dynamo_ext.optimize("openvino", options={"precision": precision})(Both().eval())
    with torch.no_grad():
        compiled(torch.randn(2, 8, 8))
    assert [graph.lowered for graph in compiled.report().graphs] == [operations]


def _ran(layer: str, kind: str, names: str) -> Any:
    facts = {"layerType": layer, "runtimePrecision": kind, "originalLayersNames": names}
    rt_info = {key: SimpleNamespace(value=value) for key, value in facts.items()}
    return SimpleNamespace(get_rt_info=lambda: rt_info)


@pytest.mark.parametrize(("unnamed", "found"), [("bf16", 111), ("f32", 11), ("", 11)])
def test_a_product_that_no_node_names_is_one_of_those_without_a_name(
    unnamed: str, found: int
) -> None:
    nodes = [
        _ran("FullyConnected", "bf16", "mm/aten.mm/MatMul,mm_1/aten.mm/MatMul"),
        _ran("MatMul", "f32", "bmm/aten.bmm.default/MatMul"),
        _ran("Subgraph", "bf16", "bmm/aten.bmm.default/MatMul"),
    ]
    if unnamed:
        nodes.append(_ran("Convolution", unnamed, "Multiply_7"))
    model = SimpleNamespace(get_runtime_model=lambda: SimpleNamespace(get_ops=lambda: nodes))
    asked = {"mm": 1, "mm_1": 10, "convolution": 100, "bmm": 1000}
    assert ran.lowered_operations(asked, model, "bf16", {}) == found


@pytest.mark.parametrize(
    "index", [torch.tensor([1, -2, 7]), torch.tensor([[1, -2], [3, -8]])], ids=["row", "matrix"]
)
def test_it_reads_by_an_index(index: torch.Tensor) -> None:
    def read(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        rows = x[index] + x[:, index].sum() + torch.index_select(x, 1, index.abs().flatten()).sum()
        return torch.roll(rows, 2, 0).tanh()

    compiled = dynamo_ext.optimize("openvino")(read)
    x = torch.randn(9, 9)
    torch.testing.assert_close(compiled(x, index), read(x, index))
    [graph] = compiled.report().graphs
    # What computes the index is eager's.
    [left] = [part.targets for part in graph.partitions if part.engine == "eager"]
    assert {"aten.abs.default"} <= {*left} <= {"aten.abs.default", "aten.view.default"}


def test_an_index_that_is_out_of_range_raises_eagers_error() -> None:
    def read(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[:, index].tanh() * 2 + 1

    compiled = dynamo_ext.optimize("openvino")(read)
    x = torch.randn(4, 9)
    torch.testing.assert_close(compiled(x, torch.tensor([-9, 8])), read(x, torch.tensor([-9, 8])))
    for wrong in (9, -10):
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds"):
            compiled(x, torch.tensor([0, wrong]))


def test_softplus_is_right_where_it_is_small_and_where_it_is_not() -> None:
    def soft(x: torch.Tensor) -> torch.Tensor:
        return F.softplus(x, 2.0, 10.0).sqrt() * F.softplus(x)

    compiled = dynamo_ext.optimize("openvino")(soft)
    x = torch.linspace(-60, 60, 1001)
    x[0], x[1], x[2] = torch.nan, torch.inf, -torch.inf
    torch.testing.assert_close(compiled(x), soft(x), rtol=1e-4, atol=1e-30, equal_nan=True)
    assert [part.engine for g in compiled.report().graphs for part in g.partitions] == ["openvino"]


def test_exponentials_are_finite_as_far_as_eagers() -> None:
    compiled = dynamo_ext.optimize("openvino")(lambda x: (x.exp() * 0.5) - 1)
    x = torch.linspace(80, 89, 1001)
    torch.testing.assert_close(compiled(x), (x.exp() * 0.5) - 1)
    assert [part.engine for g in compiled.report().graphs for part in g.partitions] == ["openvino"]
