"""What a captured graph asks of the machine, counted without computing anything."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

import dynamo_ext
from dynamo_ext.backends import disk_cache
from dynamo_ext.backends.known_machines import remember
from dynamo_ext.capture.report.work import GraphWork
from dynamo_ext.records.machine import MachineLimits, Work

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dynamo_ext.records.report import Report

MACHINE = MachineLimits("Some CPU", 2, "2", (("float32", 1e11),), ((1 << 30, 1e10),), 4e-6)
X = torch.ones(4, 8)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.FOLDER, str(tmp_path))
    torch._dynamo.reset()


def report_of(code: Callable[..., object], *args: object, backend: str = "eager") -> Report:
    fast = dynamo_ext.optimize(backend)(code)
    with torch.no_grad():
        fast(*args)
    return fast.report()


def work_of(code: Callable[..., object], *args: object, backend: str = "eager") -> Work | None:
    remember(MACHINE, torch.device("cpu"))
    return report_of(code, *args, backend=backend).graphs[0].work


def test_it_is_counted_once_the_machine_is_known() -> None:
    fast = dynamo_ext.optimize("eager")(nn.Linear(8, 16))
    fast(X)
    unknown = fast.report()
    assert (unknown.machine, unknown.graphs[0].work) == (None, None)
    remember(MACHINE, torch.device("cpu"))
    known = fast.report()
    assert known.machine == MACHINE
    size = 4 * (8 * 16 + 16 + 4 * 8 + 4 * 16)
    assert known.graphs[0].work == Work(2 * 4 * 8 * 16, size, 1, weights=4 * (8 * 16 + 16))
    assert known.graphs[0].device == "cpu"


@pytest.mark.parametrize(
    ("dtype", "precision"),
    [(torch.bfloat16, "bf16"), (torch.float16, "fp16"), (torch.float64, "float64")],
)
def test_the_codes_own_precision(dtype: torch.dtype, precision: str) -> None:
    found = work_of(nn.Linear(8, 16).to(dtype), X.to(dtype))
    assert found is not None
    assert found.precision == precision


def test_autocast_around_the_call_counts() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        found = work_of(nn.Linear(8, 16), X)
    assert found is not None
    assert (found.operations, found.precision) == (2 * 4 * 8 * 16, "bf16")


def test_what_was_asked_for_is_beside_it() -> None:
    remember(MACHINE, torch.device("cpu"))
    graph = report_of(nn.Linear(8, 16), X, backend="eager:bf16").graphs[0]
    assert graph.precision == "bf16"
    assert graph.work is not None
    assert graph.work.precision == "float32"


def test_a_whole_encoder_layer_is_one_operation_with_products() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    rows = 2 * 5
    products = 2 * rows * 8 * (3 * 8 + 8 + 16 + 16)
    found = work_of(layer, torch.ones(2, 5, 8))
    assert found is not None
    assert (found.operations, found.calls) == (products + 2 * (2 * 2 * 5 * 5 * 4) * 2, 1)


def test_attention_that_is_one_operation_has_products() -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.ones(2, 5, 8)
    found = work_of(lambda x: layer(x, x, x)[0], x)
    assert found is not None
    assert found.operations == 2 * 10 * 8 * (3 * 8 + 8) + 2 * (2 * 2 * 5 * 5 * 4) * 2


def test_a_device_without_autocast_is_captured() -> None:
    found = report_of(lambda x: x @ x, torch.ones(4, 4, device="meta"))
    assert [graph.calls for graph in found.graphs] == [1]
    assert not found.fallbacks


def test_sizes_that_change_are_those_that_it_was_captured_with() -> None:
    remember(MACHINE, torch.device("cpu"))
    fast = dynamo_ext.optimize("eager")(lambda x: (x @ x.T).relu())
    for rows in (3, 4, 5):
        fast(torch.ones(rows, 8))
    works = [graph.work and graph.work.operations for graph in fast.report().graphs]
    assert works == [2 * 3 * 8 * 3, 2 * 4 * 8 * 4]


def test_numbers_that_change_are_those_that_it_was_captured_with() -> None:
    remember(MACHINE, torch.device("cpu"))
    fast = dynamo_ext.optimize("eager", dynamic=True)(lambda x, n: (x @ x.T) * n + x.shape[0])
    for rows in (3, 4):
        fast(torch.ones(rows, 8), rows)
    works = [graph.work and graph.work.operations for graph in fast.report().graphs]
    assert works == [2 * 3 * 8 * 3]


def test_it_computes_nothing_and_changes_nothing() -> None:
    kept, x = torch.zeros(3), torch.ones(3)

    def code(x: torch.Tensor) -> torch.Tensor:
        kept.add_(1)
        return x + torch.rand(3)

    torch.manual_seed(0)
    assert work_of(code, x) is not None
    state = torch.get_rng_state()
    torch.manual_seed(0)
    torch.rand(3)
    assert torch.equal(state, torch.get_rng_state())
    assert kept.tolist() == [1.0, 1.0, 1.0]


def test_functions_of_the_users_are_not_called_again() -> None:
    called = []

    def own(x: torch.Tensor) -> torch.Tensor:
        called.append(x)
        return x + 1

    torch.compiler.allow_in_graph(own)
    assert work_of(lambda x: own(x) * 2, X) is None
    assert sum(type(each) is torch.Tensor for each in called) == 1


def test_what_depends_on_data_is_not_known() -> None:
    def counted(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x).sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert work_of(counted, X) is None


def test_it_holds_no_model() -> None:
    graph = torch.fx.symbolic_trace(nn.Linear(8, 16))
    work, gone = GraphWork(graph, (X,)), weakref.ref(graph)
    del graph
    gc.collect()
    assert gone() is None
    assert work.count() is None


def test_a_report_within_a_session_captures_nothing_of_it() -> None:
    remember(MACHINE, torch.device("cpu"))

    def square(x: torch.Tensor) -> torch.Tensor:
        return (x @ x).relu()

    with dynamo_ext.optimize("eager") as session:
        square(torch.ones(4, 4))
        assert session.report.graphs[0].work is not None
    found = session.report
    assert [graph.calls for graph in found.graphs] == [1]
    assert not found.fallbacks


def test_modes_of_the_users_see_nothing_of_it() -> None:
    fast = dynamo_ext.optimize("eager")(nn.Linear(8, 16))
    fast(X)
    remember(MACHINE, torch.device("cpu"))
    with FlopCounterMode(display=False) as counter:
        assert fast.report().graphs[0].work is not None
    assert counter.get_total_flops() == 0


def test_modes_that_see_functions_of_torchs_see_nothing_of_it() -> None:
    seen = []

    class Watching(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    fast = dynamo_ext.optimize("eager")(nn.Linear(8, 16))
    fast(X)
    remember(MACHINE, torch.device("cpu"))
    with Watching():
        assert fast.report().graphs[0].work is not None
    assert nn.functional.linear not in seen


def test_what_goes_wrong_is_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> object:
        raise RuntimeError

    graph = torch.fx.symbolic_trace(lambda x: x.relu())
    made = GraphWork(graph, (X,))
    monkeypatch.setattr(made, "_inputs", [fails])
    assert made.count() is None
