"""A precision behind a backend's name is the option of that name, or a sentence says why not."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
import torch

import dynamo_ext
from dynamo_ext.backends import precision, registry
from dynamo_ext.errors import BackendUnavailableError, OptionError, UnknownBackendError
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.common import FULL
from tests.backends.engine_zoo import error
from tests.needs import needs_backend

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dynamo_ext.records.common import OptionSpec


def test_what_stands_behind_a_name() -> None:
    assert precision.split("openvino:bf16") == ("openvino", {"precision": "bf16"})
    assert precision.split("openvino") == ("openvino", {})
    assert precision.split("openvino:bf16[threads=1]") == (
        "openvino",
        {"precision": "bf16", "threads": "1"},
    )
    assert precision.split("lambda graph, inputs: graph[0]")[1].keys() <= {"precision"}
    assert precision.split("table['a']") == ("table['a']", {})


def test_a_compiler_is_named_with_it() -> None:
    named = registry.compiler("eager:bf16")
    assert named.name == named.__name__ == "eager:bf16"
    assert named is registry.compiler("eager", {"precision": "bf16"})
    assert named is not registry.compiler("eager")
    assert registry.compiler("eager", {"precision": FULL}) is registry.compiler("eager")


def test_it_goes_to_another_process() -> None:
    made = registry.compiler("eager:bf16")
    assert pickle.loads(pickle.dumps(made)) is made


def test_one_that_a_backend_has_not() -> None:
    with pytest.raises(OptionError, match=r"tvm cannot be given precision bf16\. It can"):
        registry.compiler("tvm:bf16")
    with pytest.raises(OptionError, match=r"to eager, inductor, openvino, "):
        registry.compiler("tvm", {"precision": "bf16"})
    with pytest.raises(OptionError, match="cannot be 'bf17'"):
        registry.compiler("eager:bf17")
    with pytest.raises(UnknownBackendError, match="no backend 'egaer'"):
        registry.compiler("egaer:bf16")


class Unfit(dynamo_ext.Backend):
    """Has a precision that this machine has not."""

    name = "unfit"
    whole_graph = True
    options: Sequence[OptionSpec] = (precision.option("bf16"),)

    def supports(self, node: torch.fx.Node) -> dynamo_ext.Support:
        return dynamo_ext.Support(supported=True)

    def lower(
        self,
        graph: torch.fx.GraphModule,
        example_inputs: Sequence[torch.Tensor],
        options: dynamo_ext.Options,
    ) -> dynamo_ext.CompiledFn:
        return graph.forward

    def lacks_precision(self, precision: str) -> str:
        return f"There is no {precision} in this processor."


def test_one_that_the_machine_has_not() -> None:
    made = registry.compiler(Unfit(), {"precision": "bf16"})
    assert not made.availability.available
    assert made.availability.reason == "There is no bf16 in this processor."
    assert registry.compiler(Unfit()).availability.available
    with pytest.raises(BackendUnavailableError, match="unfit:bf16 is not available"):
        registry.compiler(Unfit(), {"precision": "bf16"}, strict=True)


def test_a_users_own_option_of_that_name() -> None:
    assert precision.of({"precision": "double"}) == FULL


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", "ts"])
@pytest.mark.parametrize("chosen", ["bf16", "fp16"])
def test_results_keep_their_dtype_and_are_near(backend: str, chosen: str) -> None:
    needs_backend(backend)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128), torch.nn.Linear(128, 8)
    )
    x = torch.randn(16, 64)
    compiled = dynamo_ext.optimize(f"{backend}:{chosen}")(model)
    with torch.no_grad():
        found, exact = compiled(x), model(x)
    assert compiled.report().fallbacks == ()
    assert compiled.report().backend == f"{backend}:{chosen}"
    assert found.dtype is torch.float32
    assert 1e-5 < error(found, exact) < 0.02
    assert {each.dtype for each in model.parameters()} == {torch.float32}


def test_compiled_code_of_one_precision_is_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch 2.11 and 2.12 keep compiled graphs on disk by a key without autocast's dtype."""
    needs_backend("inductor")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    layer, x = torch.nn.Linear(64, 64), torch.randn(16, 64)
    errors = []
    with torch.no_grad():
        for name in ("inductor:bf16", "inductor:fp16"):
            torch._dynamo.reset()
            found, exact = dynamo_ext.optimize(name)(layer)(x), layer(x)
            errors.append(error(found, exact))
    half, brain = min(errors), max(errors)
    assert errors == [brain, half]
    assert brain > 3 * half


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_training(backend: str) -> None:
    needs_backend(backend)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    x = torch.randn(16, 32)
    model(x).pow(2).mean().backward()
    expected = [each.grad.clone() for each in model.parameters() if each.grad is not None]
    model.zero_grad()
    dynamo_ext.optimize(f"{backend}:bf16")(lambda: model(x).pow(2).mean())().backward()
    for each, right in zip(model.parameters(), expected, strict=True):
        assert each.grad is not None
        assert each.grad.dtype is torch.float32
        assert 0 < error(each.grad, right) < 0.05


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", "ts"])
@pytest.mark.parametrize("gradients", [True, False])
def test_what_loses_too_much_is_eagers(backend: str, gradients: bool) -> None:
    needs_backend(backend)

    def cancelling(x: torch.Tensor, calls: torch.Tensor) -> torch.Tensor:
        calls.add_(1.0)
        # The sum of each row is lost in bfloat16 beside the large product.
        return x @ torch.ones(64, 4) - 1000.0 * torch.ones(4)

    x = torch.full((8, 64), 1000.0 / 64) + torch.randn(8, 64) * 1e-3
    x.requires_grad_(gradients)
    calls = torch.zeros(1)
    compiled = dynamo_ext.optimize(f"{backend}:bf16")(cancelling)
    for count in (1.0, 2.0):
        assert torch.equal(compiled(x, calls), cancelling(x, torch.zeros(1)))
        assert float(calls) == count
    [fallback] = compiled.report().fallbacks
    assert fallback.stage == "verify"
    assert "bf16 may have 0.05" in fallback.message
    assert fallback.remedy == precision.REMEDY


def test_what_misses_a_strict_bound_of_the_users_is_eagers() -> None:
    layer, x = torch.nn.Linear(64, 64), torch.randn(8, 64)
    bound = AccuracyBound.parse("rel<=1e-6")
    for strict in (False, True):
        torch.compiler.reset()
        compiler = registry.compiler("eager:bf16").within(bound, strict=strict)
        compiled = dynamo_ext.optimize(compiler)(layer)
        with torch.no_grad():
            assert torch.equal(compiled(x), layer(x)) is strict
        said = [each.message for each in compiled.report().fallbacks]
        assert ["rel<=1e-06 was asked for" in each for each in said] == [True] * strict


def test_integers_and_views_of_inputs_are_as_in_eager() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x @ x.t()
        return x.t(), y, y.argmax(1), x.long()

    x = torch.eye(8) * torch.arange(1.0, 9)
    compiled = dynamo_ext.optimize("eager:bf16")(function)
    view, _, index, whole = compiled(x)
    assert view.data_ptr() == x.data_ptr()
    assert torch.equal(index, torch.arange(8))
    assert whole.dtype is torch.int64
    assert compiled.report().fallbacks == ()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", "ts"])
def test_results_in_one_memory_are_as_in_eager(backend: str) -> None:
    needs_backend(backend)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = (x @ x.t()).relu()
        return y.view(-1), y, y @ y, y[0]

    compiled = dynamo_ext.optimize(f"{backend}:bf16")(function)
    flat, whole, _, row = found = compiled(torch.randn(8, 8))
    assert {each.dtype for each in found} == {torch.float32}
    assert flat.data_ptr() == whole.data_ptr() == row.data_ptr()
    assert compiled.report().fallbacks == ()


def test_a_graph_break_hands_on_eagers_dtype() -> None:
    seen: list[torch.dtype] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x @ x
        torch._dynamo.graph_break()
        seen.append(y.dtype)
        return y @ y

    assert dynamo_ext.optimize("eager:bf16")(function)(torch.eye(4)).dtype is torch.float32
    assert seen == [torch.float32]
