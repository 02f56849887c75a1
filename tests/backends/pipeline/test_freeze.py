"""Frozen weights are never stale, whichever way they change."""

from __future__ import annotations

import copy
import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends.pipeline.calls.weight_sets import MOST_BUILT, MOST_SETS
from dynamo_ext.backends.pipeline.freeze import Watch, frozen, watchable

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()


def call(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return m(x)


def add(m: nn.Module) -> None:
    with torch.no_grad():
        m[0].weight.add_(0.5)


def data(m: nn.Module) -> None:
    m[3].bias.data = torch.full((2,), 7.0)


def load(m: nn.Module) -> None:
    m.load_state_dict(model().state_dict())


def assign(m: nn.Module) -> None:
    m.load_state_dict({k: v.clone() + 1 for k, v in m.state_dict().items()}, assign=True)


def replace(m: nn.Module) -> None:
    m[0].weight = nn.Parameter(torch.ones(8, 4))


def buffer(m: nn.Module) -> None:
    m[1].running_mean.fill_(3.0)


def statistics(m: nn.Module) -> None:
    m.train()
    m(X * 3)
    m.eval()


def step(m: nn.Module) -> None:
    optimizer = torch.optim.SGD(m.parameters(), lr=0.5)
    with torch.enable_grad():
        m(X).square().sum().backward()
    optimizer.step()


def average(m: nn.Module) -> None:
    for weight in m.parameters():
        weight.data.mul_(0.5).add_(torch.ones_like(weight), alpha=0.5)


def clip(m: nn.Module) -> None:
    for weight in m.parameters():
        weight.data.clamp_(-0.1, 0.1)


def prune(m: nn.Module) -> None:
    m[0].weight.data.mul_((m[0].weight.abs() > 0.25).float())


def array(m: nn.Module) -> None:
    m[3].weight.detach().numpy()[:] *= 2


CHANGES = [add, data, load, assign, replace, buffer, statistics, step, average, clip, prune, array]


@pytest.mark.parametrize("backend", ["scripted", "onnxrt"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_weight_is_seen(harness: Any, scripted: Any, backend: str, change: Any) -> None:
    from dynamo_ext.backends import registry

    m = model()
    compiled = harness.compile(
        m, scripted if backend == "scripted" else registry.compiler("onnxrt")
    )
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(X), m(X), rtol=1e-4, atol=1e-5)
        before = m(X)
        change(m)
        for _ in range(3):
            torch.testing.assert_close(compiled(X), m(X), rtol=1e-4, atol=1e-5)
        assert not torch.allclose(before, m(X))
        change(m)
        torch.testing.assert_close(compiled(X), m(X), rtol=1e-4, atol=1e-5)
    assert not harness.stages


def test_weights_become_constants_and_then_inputs_once(harness: Any, scripted: Any) -> None:
    m = model()
    compiled = harness.compile(m, scripted)
    with torch.no_grad():
        compiled(X)
        (partition,) = harness.journal.partitions.values()
        assert (partition.frozen, partition.engines_built) == (8, 1)
        assert scripted.inputs == [1]
        for _ in range(3):
            add(m)
            torch.testing.assert_close(compiled(X), m(X))
    assert scripted.inputs == [1, 9]
    (partition,) = harness.journal.partitions.values()
    assert partition.engines_built == 2


def load_own(m: nn.Module) -> None:
    m.load_state_dict({name: value + 1 for name, value in m.state_dict().items()})


@pytest.mark.parametrize("change", [load_own, *(c for c in CHANGES if c is not load)])
def test_parts_of_a_graph_freeze_their_weights(harness: Any, scripted: Any, change: Any) -> None:
    m = nn.Sequential(*model(), nn.Tanh(), nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    scripted.refuses = ("tanh",)
    compiled = harness.compile(m, scripted)
    with torch.no_grad():
        torch.testing.assert_close(compiled(X), m(X))
        frozen_weights = [p.frozen for p in harness.journal.partitions.values()]
        assert sorted(frozen_weights) == [0, 4, 8]
        assert scripted.inputs == [1, 1]
        change(m)
        for _ in range(3):
            torch.testing.assert_close(compiled(X), m(X), rtol=1e-4, atol=1e-5)
    assert scripted.inputs[:2] == [1, 1]
    # Other tensors are constants again; those that changed in place are inputs.
    assert set(scripted.inputs[2:]) <= ({1} if change in {assign, replace} else {9, 5})
    assert len(scripted.inputs) > 2


def test_an_instance_that_is_trained_takes_its_weights_as_inputs_and_the_other_does_not(
    harness: Any, scripted: Any
) -> None:
    first, second = model(), model()

    compiled = harness.compile(call, scripted)
    with torch.no_grad():
        for _ in range(2):
            compiled(first, X), compiled(second, X)
        for _ in range(3):
            add(first)
            for each in (first, second):
                torch.testing.assert_close(compiled(each, X), each(X))
    assert scripted.inputs == [1, 1, 9]


def test_instances_on_two_threads_keep_their_own_weights(harness: Any, scripted: Any) -> None:
    instances = [model(), model()]

    compiled = harness.compile(call, scripted)
    wrong = []

    def work(mine: nn.Module) -> None:
        with torch.no_grad():
            expected = mine(X)
            wrong.extend(1 for _ in range(2000) if not torch.allclose(compiled(mine, X), expected))

    with torch.no_grad():
        for each in instances * 2:
            compiled(each, X)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(work, instances))
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
    assert scripted.inputs == [1, 1]


def test_of_many_instances_the_later_ones_take_their_weights_as_inputs(
    harness: Any, scripted: Any
) -> None:
    compiled = harness.compile(call, scripted)
    instances = [model() for _ in range(MOST_SETS + 3)]
    with torch.no_grad():
        for _ in range(2):
            for each in instances:
                torch.testing.assert_close(compiled(each, X), each(X))
    assert scripted.inputs == [1] * MOST_SETS + [9]
    (partition,) = harness.journal.partitions.values()
    assert partition.engines_built == MOST_SETS + 1


@pytest.mark.usefixtures("older_objects_frozen")
def test_engines_go_with_the_models_whose_weights_they_have(harness: Any, scripted: Any) -> None:
    """As in a notebook, whose cell makes a model anew each time that it runs."""

    compiled = harness.compile(call, scripted)
    times = 2 * MOST_SETS
    with torch.no_grad():
        for _ in range(times):
            made = model()
            for _ in range(2):
                torch.testing.assert_close(compiled(made, X), made(X))
            (weight,) = [weakref.ref(p) for p in made.parameters() if p.ndim > 1][:1]
            del made
            gc.collect()
            assert weight() is None
    assert scripted.inputs == [1] * times


@pytest.mark.parametrize(
    ("m", "inputs"),
    [
        pytest.param(
            nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)), [1] * MOST_BUILT + [5], id="all"
        ),
        pytest.param(model(), [1, 7], id="statistics stay"),
    ],
)
def test_weights_that_do_not_last_get_no_engines_for_ever(
    harness: Any, scripted: Any, m: nn.Module, inputs: list[int]
) -> None:
    compiled = harness.compile(m, scripted)
    prefix = next(iter(compiled.state_dict())).removesuffix(next(iter(m.state_dict())))
    with torch.no_grad():
        compiled(X)
        for step in range(MOST_BUILT + 4):
            given = {name: p + step for name, p in m.named_parameters()}
            wrapped = {prefix + name: p for name, p in given.items()}
            found = torch.func.functional_call(compiled, wrapped, (X,))
            torch.testing.assert_close(found, torch.func.functional_call(m, given, (X,)))
        torch.testing.assert_close(compiled(X), m(X))
    # Dynamo captures once more for tensors that are no parameters.
    assert scripted.inputs == [1, *inputs]


def test_a_buffer_that_is_replaced_at_each_call_becomes_an_input(
    harness: Any, scripted: Any
) -> None:
    """As spiking neurons keep their charge: each call took as long as compiling, sixteen times."""

    class Leaky(nn.Linear):
        def __init__(self) -> None:
            super().__init__(4, 4)
            self.register_buffer("charge", torch.zeros(2, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.charge = (self.charge * 0.9 + super().forward(x)).tanh()
            return self.charge * 2

    m = Leaky()
    expected = copy.deepcopy(m)
    compiled = harness.compile(m, scripted)
    with torch.no_grad():
        for _ in range(6):
            torch.testing.assert_close(compiled(torch.ones(2, 4)), expected(torch.ones(2, 4)))
    (partition,) = harness.journal.partitions.values()
    assert partition.engines_built == 2


def test_the_second_engine_failing_means_eager(harness: Any, scripted: Any) -> None:
    m = model()
    scripted.lower_error = lambda n: RuntimeError("only frozen") if n else None
    compiled = harness.compile(m, scripted)
    with torch.no_grad():
        compiled(X)
        add(m)
        for _ in range(2):
            torch.testing.assert_close(compiled(X), m(X))
    assert harness.stages == ["lower"]
    assert set(harness.engines) == {"eager"}


def test_freezing_can_be_left_out(harness: Any, scripted: Any) -> None:
    m = model()
    compiled = harness.compile(m, scripted, {"freeze": False})
    with torch.no_grad():
        compiled(X)
        add(m)
        torch.testing.assert_close(compiled(X), m(X))
    assert scripted.inputs == [9]
    (partition,) = harness.journal.partitions.values()
    assert partition.frozen == 0


def test_weights_of_inference_mode_cannot_be_watched(harness: Any, scripted: Any) -> None:
    with torch.inference_mode():
        m = model()
        compiled = harness.compile(m, scripted)
        for _ in range(2):
            torch.testing.assert_close(compiled(X), m(X))
        m[0].weight.add_(1)
        torch.testing.assert_close(compiled(X), m(X))
    assert all(p.frozen == 0 for p in harness.journal.partitions.values())


def test_statistics_on_a_device_are_inputs() -> None:
    statistics, matrix = torch.empty(4, device="meta"), torch.empty(4, 4, device="meta")
    assert not watchable(statistics)
    assert watchable(matrix)
    assert watchable(nn.Parameter(statistics))
    assert watchable(torch.ones(4))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_watch(count: int) -> None:
    weights = [nn.Parameter(torch.ones(2)) for _ in range(count)]
    args = [torch.zeros(1), *weights]
    watch = Watch({i + 1: w for i, w in enumerate(weights)})
    assert watch.fresh(args)
    assert not watch.fresh([args[0], *(nn.Parameter(torch.ones(2)) for _ in weights)])
    with torch.no_grad():
        weights[-1].mul_(1)
    assert not watch.fresh(args)


def test_frozen_leaves_the_graph_alone() -> None:
    graph = torch.fx.symbolic_trace(lambda a, b, c: (a + c,))
    made = frozen(graph, {2: torch.ones(2)}, {1})
    assert [n.name for n in made.graph.nodes if n.op == "placeholder"] == ["a"]
    assert len([n for n in graph.graph.nodes if n.op == "placeholder"]) == 3
    torch.testing.assert_close(made(torch.ones(2))[0], torch.full((2,), 2.0))


WEIGHTS = {
    "one element, a stride of 2": torch.tensor([3.0, 4.0])[::2],
    "no dimension": torch.tensor(3.0),
    "no dimension, in another tensor": torch.tensor([3.0, 4.0])[1],
    "sizes of one, odd strides": torch.ones(9).as_strided((1, 1, 1), (7, 5, 3)),
    "no elements": torch.ones(0, 3),
    "no elements, a stride of 2": torch.ones(4)[:0:2],
    "expanded": torch.ones(1).expand(4),
    "every other element": torch.ones(8)[::2],
    "negated": torch._neg_view(torch.ones(1)),
    "float8": torch.ones(1, dtype=torch.float8_e4m3fn),
    "half": torch.tensor([3.0, 4.0], dtype=torch.float16)[::2],
    "truth": torch.tensor([True]),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_any_weight_can_be_watched(name: str) -> None:
    weight = WEIGHTS[name]
    watch = Watch({0: weight})
    assert watch.fresh([weight])
    if weight.numel():
        weight.data.fill_(0)
        assert not watch.fresh([weight])


@pytest.mark.parametrize("backend", ["scripted", "onnxrt"])
def test_a_weight_of_one_element_and_a_stride_leaves_the_graph_in_the_engine(
    harness: Any, scripted: Any, backend: str
) -> None:
    from dynamo_ext.backends import registry

    m = nn.Linear(4, 4)
    m.register_buffer("by", torch.tensor([3.0, 4.0])[::2])
    compiler = scripted if backend == "scripted" else registry.compiler(backend)
    compiled = harness.compile(lambda x: m(x) * m.by, compiler)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(X), m(X) * m.by)
    assert not harness.stages
    assert set(harness.engines) == {compiler.name}


def test_weights_that_cannot_be_watched_are_inputs(
    harness: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def samples(_: torch.Tensor) -> list[Any]:
        raise MemoryError

    monkeypatch.setattr("dynamo_ext.backends.pipeline.freeze._samples", samples)
    m = model()
    compiled = harness.compile(m, scripted)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(X), m(X))
    assert not harness.stages
    assert scripted.inputs == [9]
    (partition,) = harness.journal.partitions.values()
    assert partition.frozen == 0
