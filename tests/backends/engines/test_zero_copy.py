"""Nothing is copied between torch and an engine: outputs are all that a call allocates.

``test_onnxrt`` and ``test_openvino`` look at the addresses that are lent; here torch's profiler
counts the bytes of whole calls, through Dynamo and AOTAutograd and back.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import registry

SIZE = 1 << 18
ENGINES = ["ts", "onnxrt", "openvino"]


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


@pytest.mark.parametrize("name", ENGINES)
def test_a_call_copies_nothing(harness: Any, name: str) -> None:
    x = torch.randn(SIZE)
    compiled = warm(harness, double, name, x)
    assert copies(lambda: compiled(x)) == []
    torch.testing.assert_close(compiled(x), x * 2)


@pytest.mark.parametrize("name", ENGINES)
def test_torch_allocates_no_more_than_the_output(harness: Any, name: str) -> None:
    x = torch.randn(SIZE)
    compiled = warm(harness, double, name, x)
    assert allocated(lambda: double(x)) == SIZE * 4
    # ONNX Runtime allocates its outputs itself, and lends them to torch.
    wanted = 0 if name == "onnxrt" else SIZE * 4
    assert allocated(lambda: compiled(x)) == wanted


@pytest.mark.parametrize("name", ENGINES)
def test_frozen_weights_are_not_copied_at_a_call(harness: Any, name: str) -> None:
    model = nn.Linear(512, 512).eval()
    x = torch.randn(4, 512)
    with torch.no_grad():
        compiled = warm(harness, model, name, x)
        # Eager's own kernel may copy the bias into the result.
        assert set(copies(lambda: compiled(x))) <= set(copies(lambda: model(x)))
        assert allocated(lambda: compiled(x)) < model.weight.nbytes


@pytest.mark.parametrize("name", ENGINES)
def test_an_input_that_is_not_row_major_is_the_exception(harness: Any, name: str) -> None:
    x = torch.randn(512, 512).t()
    compiled = warm(harness, double, name, x)
    torch.testing.assert_close(compiled(x), x * 2)
    assert compiled(x).stride() == (x * 2).stride()
    if name == "ts":
        assert copies(lambda: compiled(x)) == []


@pytest.mark.parametrize("name", ENGINES)
def test_outputs_are_the_callers(harness: Any, name: str) -> None:
    x = torch.randn(SIZE)
    compiled = warm(harness, double, name, x)
    results = [compiled(x) for _ in range(4)]
    assert len({result.data_ptr() for result in results}) == 4
    results[0].zero_()
    for result in results[1:]:
        torch.testing.assert_close(result, x * 2)
