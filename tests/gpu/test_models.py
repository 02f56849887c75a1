"""Every backend that may run on CUDA: right results, in its engine, in float32 and half."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from tests.gpu.models import MODELS, made

BACKENDS = ["inductor", "cudagraphs", "tensorrt", "nvfuser", "onnxrt", "ts", "tvm", "xla"]
PARTITIONING = ["onnxrt", "ts", "xla"]
LOOSE = {torch.float32: 2e-3, torch.float16: 2e-2, torch.bfloat16: 5e-2}


def close(found: Any, expected: torch.Tensor) -> None:
    assert found.device == expected.device
    assert found.dtype == expected.dtype
    allowed = LOOSE[expected.dtype]
    torch.testing.assert_close(found, expected, rtol=allowed, atol=allowed)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_inference(compiled: Any, backend: str, model: str) -> None:
    module, x = made(model)
    fast = compiled(backend, module)
    with torch.no_grad():
        for _ in range(3):
            close(fast.call(x), module(x))
    assert not fast.failures
    if backend in PARTITIONING:
        assert backend in fast.engines


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", BACKENDS)
def test_half_precision(compiled: Any, backend: str, dtype: torch.dtype) -> None:
    module, x = made("mlp", dtype)
    fast = compiled(backend, module)
    with torch.no_grad():
        for _ in range(3):
            close(fast.call(x), module(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_dynamic_batch(compiled: Any, backend: str) -> None:
    module, _ = made("mlp")
    fast = compiled(backend, module, dynamic=True)
    with torch.no_grad():
        for batch in (8, 3, 17, 8):
            x = torch.randn(batch, 64, device="cuda")
            close(fast.call(x), module(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_mutated_inputs_and_statistics(compiled: Any, backend: str) -> None:
    def bump(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    fast = compiled(backend, bump)
    mine, theirs = (torch.ones(16, device="cuda") for _ in range(2))
    for _ in range(3):
        close(fast.call(mine), bump(theirs))
        close(mine, theirs)
    norm = nn.BatchNorm1d(8).cuda().train()
    twin = copy.deepcopy(norm)
    fast = compiled(backend, norm)
    x = torch.randn(4, 8, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            close(fast.call(x), twin(x))
    close(norm.running_mean, twin.running_mean)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_stay_the_callers(compiled: Any, backend: str) -> None:
    module, x = made("mlp")
    fast = compiled(backend, module)
    with torch.no_grad():
        results = [(fast.call(x + number), x + number) for number in range(5)]
        for result, given in results:
            close(result, module(given))


@pytest.mark.parametrize("backend", BACKENDS)
def test_changed_weights_are_seen(compiled: Any, backend: str) -> None:
    module, x = made("mlp")
    fast = compiled(backend, module)
    with torch.no_grad():
        for _ in range(3):
            close(fast.call(x), module(x))
            module[0].weight.add_(0.1)


@pytest.mark.parametrize("backend", ["inductor", "onnxrt", "ts", "xla"])
def test_training(compiled: Any, backend: str) -> None:
    module, x = made("mlp")
    twin = copy.deepcopy(module)
    fast = compiled(backend, module)
    for call in (fast.call, twin):
        call(x).square().mean().backward()
    for mine, theirs in zip(module.parameters(), twin.parameters(), strict=True):
        close(mine.grad, theirs.grad)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_side_stream(compiled: Any, backend: str) -> None:
    module, x = made("mlp")
    fast = compiled(backend, module)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            found = fast.call(x)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.no_grad():
        close(found, module(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_stream_than_it_was_compiled_on(compiled: Any, backend: str) -> None:
    module, x = made("mlp")
    fast = compiled(backend, module)
    stream = torch.cuda.Stream()
    with torch.no_grad():
        fast.call(x)
        for number in range(5):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                found = fast.call(x + number) * 2
            torch.cuda.current_stream().wait_stream(stream)
            close(found, module(x + number) * 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_indices(compiled: Any, backend: str) -> None:
    """A wrong index, in a trial as well, ends every later use of the device by the process."""
    module = nn.Sequential(nn.Embedding(10, 64), made("mlp")[0]).eval().cuda()
    fast = compiled(backend, module)
    with torch.no_grad():
        for length in (5, 5, 7):
            x = torch.randint(10, (2, length), device="cuda")
            close(fast.call(x), module(x))
    torch.cuda.synchronize()
    assert not fast.failures
