"""What a GPU backend cannot take is recorded, and the result is eager's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.gpu.models import made


def test_cudagraphs_tells_its_skips(compiled: Any) -> None:
    def mixed(x: torch.Tensor) -> torch.Tensor:
        return x.cpu().sin() + 1

    fast = compiled("cudagraphs", mixed)
    x = torch.randn(8, device="cuda")
    for _ in range(2):
        torch.testing.assert_close(fast.call(x), mixed(x))
    (fallback,) = fast.journal.fallbacks.values()
    assert fallback.stage == "unsupported"
    assert "cpu device" in fallback.message


def test_cudagraphs_without_copies_overwrites(compiled: Any) -> None:
    """What ``clone_outputs`` is for: a replay writes where the last result lies."""
    module, x = made("mlp")
    with torch.no_grad():
        kept = compiled("cudagraphs", module, {"clone_outputs": True})
        first = kept.call(x)
        before = first.clone()
        for number in range(3):
            kept.call(x + number)
        assert torch.equal(first, before)


def test_tensorrt_leaves_an_operator_to_torch(compiled: Any) -> None:
    module, x = made("mlp")
    options = {"torch_executed_ops": {"torch.ops.aten.relu.default"}, "min_block_size": 1}
    fast = compiled("tensorrt", module, options)
    with torch.no_grad():
        torch.testing.assert_close(fast.call(x), module(x), rtol=2e-3, atol=2e-3)


def test_tensorrt_in_half(compiled: Any) -> None:
    module, x = made("mlp")
    options = {"enable_autocast": True, "autocast_low_precision_type": "float16"}
    fast = compiled("tensorrt", module, {**options, "verify": False})
    with torch.no_grad():
        torch.testing.assert_close(fast.call(x), module(x), rtol=2e-2, atol=2e-2)


def kernels(fast: Any, x: torch.Tensor) -> dict[str, int]:
    """What ran on the device in a call, by name, and how many times."""
    with torch.no_grad():
        for _ in range(3):
            fast.call(x)
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        ) as profile:
            fast.call(x)
            torch.cuda.synchronize()
    return {event.key: event.count for event in profile.key_averages()}


def test_onnxrt_keeps_its_tensors_on_the_device(compiled: Any) -> None:
    module, x = made("cnn")
    names = kernels(compiled("onnxrt", module), x)
    assert not [name for name in names if "Memcpy DtoH" in name or "Memcpy HtoD" in name]


def test_cudagraphs_leaves_views_of_inputs(compiled: Any) -> None:
    x = torch.randn(2, 3, device="cuda")
    fast = compiled("cudagraphs", lambda x: (x.view(-1), x.sin()), {"verify": True})
    for _ in range(3):
        view, _ = fast.call(x)
        assert view.data_ptr() == x.data_ptr()
    assert not fast.stages


@pytest.mark.parametrize("options", [{}, {"precision": "bf16"}])
def test_cudagraphs_copies_no_weights(compiled: Any, options: dict[str, str]) -> None:
    module, x = made("mlp")
    found = kernels(compiled("cudagraphs", module, options), x)
    copies = sum(count for name, count in found.items() if "Memcpy DtoD" in name)
    assert copies <= 2, "its input and its result"


def test_an_operator_that_an_engine_lacks_splits_the_graph(compiled: Any) -> None:
    def long(x: torch.Tensor) -> torch.Tensor:
        y = x.sin().cos().exp().tanh()
        return torch.linalg.eigvalsh(y @ y.t()).sin().cos().exp()

    fast = compiled("onnxrt", long)
    x = torch.randn(6, 6, device="cuda")
    torch.testing.assert_close(fast.call(x), long(x), rtol=1e-3, atol=1e-3)
    assert fast.engines == {"onnxrt", "eager"}
    assert "unsupported" in fast.stages


def test_onnxrt_lowers_no_precision_unasked(compiled: Any) -> None:
    """Its CUDA provider has TF32 switched on by itself."""
    module, x = made("mlp")
    fast = compiled("onnxrt", module)
    with torch.no_grad():
        found, exact = fast.call(x), module.double()(x.double())
    assert "onnxrt" in fast.engines
    assert not fast.failures
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)
