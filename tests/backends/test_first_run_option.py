"""The option ``first_run``: seconds of compiling for the lifetime of what is compiled."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.backends import registry
from dynamo_ext.backends.base import Lowered, LoweringRequest
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.errors import FallbackWarning, OptionError
from dynamo_ext.timing import first_run
from tests.timing import fake_clock

SECONDS = 20.0


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what was lowered, each in 8 seconds of the clock: two of them leave too few for a third."""
    time = fake_clock.install(monkeypatch)
    found: list[int] = []
    backend: Any = registry.get("onnxrt")

    def lower_for(request: LoweringRequest) -> Lowered:
        time.sleep(8.0)
        found.append(len(request.inputs[0]))
        return Lowered(request.graph.forward)

    monkeypatch.setattr(backend, "lower_for", lower_for)
    torch._dynamo.reset()
    return found


def f(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).relu() * 2 - x.sigmoid()


def check(compiled: Any) -> None:
    for size in (2, 3, 4, 5, 4):
        x = torch.randn(size)
        assert torch.equal(compiled(x), f(x))


def test_what_is_not_begun_in_time_stays_eager_under_torch_compile(lowered: list[int]) -> None:
    options = {"first_run": SECONDS}
    with pytest.warns(FallbackWarning, match="the 20 s for the first run were used up.*first_run"):
        check(torch.compile(f, backend="dx_onnxrt", dynamic=False, options=options))
    assert lowered == [2, 3]


def test_each_optimize_has_seconds_of_its_own_and_its_report_says_what_they_left_out(
    lowered: list[int],
) -> None:
    for given in ({"first_run": SECONDS}, {"options": {"first_run": "20"}}):
        compiled = dynamo_ext.optimize("onnxrt", dynamic=False, **given)(f)  # type: ignore[arg-type]
        check(compiled)
        told = {(f.cause, f.remedy) for f in dynamo_ext.last_report().fallbacks}
        [(cause, remedy)] = told
        assert cause == "time"
        assert "first_run" in remedy
    assert lowered == [2, 3, 2, 3]


def test_without_the_option_there_is_no_limit(lowered: list[int]) -> None:
    check(dynamo_ext.optimize("onnxrt", dynamic=False)(f))
    assert lowered == [2, 3, 4, 5]
    made = registry.compiler("onnxrt", {"first_run": None})
    assert isinstance(made, Compiler)
    assert made is made.with_own_seconds() is registry.compiler("onnxrt")
    assert first_run.current().seconds == float("inf")


@pytest.mark.parametrize("wrong", [0, -1, "soon", float("nan")])
def test_other_values_are_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="'first_run' cannot be"):
        dynamo_ext.optimize("onnxrt", first_run=wrong)
