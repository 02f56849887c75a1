"""Nothing is copied between torch and an engine: outputs are all that a call allocates.

The engines' own tests look at the addresses that are lent; here torch's profiler counts the bytes of
whole calls, through Dynamo and AOTAutograd and back.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.backends import ENGINES
from dynamo_ext.backends import registry
from tests.backends.engine_zoo import lowered, square
from tests.needs import needs_backend

SIZE = 1 << 18
LENDING = ["ts", "onnxrt", "openvino"]


def allocated(call: Any) -> int:
    """Bytes that torch's allocator handed out during a call."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        kept = call()
    del kept
    return sum(max(event.self_cpu_memory_usage, 0) for event in profile.events())


def copies(call: Any) -> list[str]:
    """Operators of torch that copy, and how often they ran."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        kept = call()
    del kept
    names = ("aten::copy_", "aten::clone", "aten::contiguous", "aten::_to_copy")
    return [event.key for event in profile.key_averages() if event.key in names]


def double(x: torch.Tensor) -> torch.Tensor:
    return x + x


def warm(harness: Any, function: Any, name: str, *args: torch.Tensor) -> Any:
    compiled = harness.compile(function, registry.compiler(name))
    for _ in range(6):
        compiled(*args)
    assert not harness.stages
    assert set(harness.engines) == {name}
    return compiled


@pytest.mark.parametrize("name", LENDING)
def test_a_call_copies_nothing_and_allocates_the_output_alone(harness: Any, name: str) -> None:
    x = torch.randn(SIZE)
    compiled = warm(harness, double, name, x)
    assert copies(lambda: compiled(x)) == []
    torch.testing.assert_close(compiled(x), x * 2)
    assert allocated(lambda: double(x)) == SIZE * 4
    # ONNX Runtime allocates its outputs itself, and lends them to torch.
    wanted = 0 if name == "onnxrt" else SIZE * 4
    assert allocated(lambda: compiled(x)) == wanted


@pytest.mark.parametrize("name", LENDING)
def test_frozen_weights_are_not_copied_at_a_call(harness: Any, name: str) -> None:
    model = nn.Linear(512, 512).eval()
    x = torch.randn(4, 512)
    with torch.no_grad():
        compiled = warm(harness, model, name, x)
        # Eager's own kernel may copy the bias into the result.
        assert set(copies(lambda: compiled(x))) <= set(copies(lambda: model(x)))
        assert allocated(lambda: compiled(x)) < model.weight.nbytes


@pytest.mark.parametrize("name", LENDING)
def test_an_input_that_is_not_row_major_is_the_exception(harness: Any, name: str) -> None:
    x = torch.randn(512, 512).t()
    compiled = warm(harness, double, name, x)
    torch.testing.assert_close(compiled(x), x * 2)
    assert compiled(x).stride() == (x * 2).stride()
    if name == "ts":
        assert copies(lambda: compiled(x)) == []


@pytest.mark.parametrize("size", [32, SIZE])
@pytest.mark.parametrize("name", ENGINES)
def test_outputs_are_the_callers(name: str, size: int) -> None:
    needs_backend(name)
    x = torch.randn(size)
    run = lowered(name, square, x)
    results = [run(x)[0] for _ in range(4)]
    assert len({result.data_ptr() for result in results}) == 4
    run(torch.zeros(size))
    results[0].zero_()
    for result in results[1:]:
        torch.testing.assert_close(result, x * x)
