"""Outputs laid out in memory as eager lays them out."""

from __future__ import annotations

import pytest
import torch

import dynamo_ext
from dynamo_ext.backends.pipeline.memory_format import in_layout, order_of

CHANNELS = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("tensor", "order"),
    [
        (torch.randn(2, 3), ()),
        (torch.randn(2, 3).t(), (1, 0)),
        (CHANNELS, (0, 2, 3, 1)),
        (torch.randn(4, 1, 5).transpose(0, 2), (2, 1, 0)),
        (torch.randn(3, 1).t(), ()),
        (torch.randn(4, 6)[:, ::2], ()),
        (torch.randn(3, 1).expand(3, 4), ()),
        (torch.empty(0, 3).t(), ()),
        (torch.tensor(1.0), ()),
        (None, ()),
    ],
)
def test_order(tensor: torch.Tensor, order: tuple[int, ...]) -> None:
    assert order_of(tensor) == order


@pytest.mark.parametrize("tensor", [torch.randn(2, 3).t(), CHANNELS, torch.randn(4, 1, 5).mT])
def test_a_copy_is_made_only_where_needed(tensor: torch.Tensor) -> None:
    order = order_of(tensor)
    (made,) = in_layout([tensor.contiguous()], {0: order})
    assert made.stride() == tensor.stride()
    torch.testing.assert_close(made, tensor)
    (kept,) = in_layout([tensor], {0: order})
    assert kept.data_ptr() == tensor.data_ptr()


@torch.library.custom_op("dynamo_ext_tests::turned", mutates_args=())
def turned(x: torch.Tensor) -> torch.Tensor:
    return x.mT.contiguous().mT


@turned.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("backend", ["onnxrt", "openvino"])
def test_a_kernel_may_give_other_strides_than_tracing_says(backend: str, few: bool) -> None:
    def flat(x: torch.Tensor) -> torch.Tensor:
        y = (((x * 2).sin() + 1).exp() * 3).tanh()
        z = turned(y).reshape(-1)
        return z if few else ((z * 2).cos() + 1).exp() * z

    pytest.importorskip({"onnxrt": "onnxruntime"}.get(backend, backend))
    x = torch.randn(3, 4)
    fast = dynamo_ext.optimize(backend)(flat)
    for _ in range(2):
        torch.testing.assert_close(fast(x), flat(x))
    stages = {fallback.stage for fallback in fast.report().fallbacks}
    assert stages <= {"unsupported"}
