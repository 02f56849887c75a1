"""What a call asks of the machine, where it can be counted by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from dynamo_ext.torch_private.work import count_work, products_in

if TYPE_CHECKING:
    from collections.abc import Callable

X = torch.ones(4, 8)
BIG = torch.ones(1000, 64)


def inference(module: nn.Module, *args: torch.Tensor) -> Callable[[], object]:
    @torch.no_grad()
    def call() -> object:
        return module(*args)

    return call


def size_of(module: nn.Module) -> int:
    return sum(each.nbytes for each in (*module.parameters(), *module.buffers()))


def test_a_linear_layer() -> None:
    layer = nn.Linear(8, 16)
    expected = (2 * 4 * 8 * 16, size_of(layer) + X.nbytes, torch.float32, size_of(layer))
    assert count_work(inference(layer, X)) == expected


def test_a_convolution() -> None:
    layer, image = nn.Conv2d(3, 8, 3), torch.ones(2, 3, 10, 10)
    operations, size, *_ = count_work(inference(layer, image))
    assert operations == 2 * (3 * 3 * 3) * 8 * (2 * 8 * 8)
    assert size == size_of(layer) + image.nbytes


def test_an_encoder_layer_that_is_one_operation_has_the_products_of_its_parts() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.ones(2, 5, 8)
    rows = 2 * 5
    products = 2 * rows * 8 * (3 * 8 + 8 + 16 + 16)
    attention = 2 * (2 * 2 * 5 * 5 * 4) * 2
    operations, size, *_ = count_work(inference(layer, x))
    assert operations == products + attention
    assert size == size_of(layer) + x.nbytes


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_steps_that_a_mask_leaves_out_are_not_computed() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    encoder, x = nn.TransformerEncoder(layer, 1).eval(), torch.ones(2, 5, 8)
    left_out = torch.zeros(2, 5, dtype=torch.bool)
    left_out[0, 3:] = True
    with torch.no_grad():
        operations, *_ = count_work(lambda: encoder(x, src_key_padding_mask=left_out))
    rows = 3 + 5
    assert operations == 2 * rows * 8 * (3 * 8 + 8 + 16 + 16) + 4 * 8 * (3 * 3 + 5 * 5)


def test_other_threads_compute_as_they_do() -> None:
    """What torch keeps for a process (attention's kernels, hooks of all modules) stays."""
    layer = nn.Linear(8, 16)
    hooks = torch.nn.modules.module._global_forward_pre_hooks
    seen = []

    def call() -> None:
        layer(X)
        seen.append((torch.backends.mha.get_fastpath_enabled(), len(hooks)))

    before = torch.backends.mha.get_fastpath_enabled(), len(hooks)
    count_work(call)
    assert seen == [before]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_what_torch_takes_apart_is_counted_by_its_parts(mode: Callable[[], object]) -> None:
    layer = nn.Linear(8, 16)
    with mode():  # type: ignore[attr-defined]
        assert count_work(lambda: layer(X))[:2] == (2 * 4 * 8 * 16, size_of(layer) + X.nbytes)


def test_a_recurrent_layer() -> None:
    layer, x = nn.LSTM(8, 16), torch.ones(5, 2, 8)
    operations, size, *_ = count_work(inference(layer, x))
    assert operations == 2 * 5 * 2 * 4 * 16 * (8 + 16)
    assert size == size_of(layer) + x.nbytes


def test_a_backward_pass_counts_twice_a_forward_one() -> None:
    layer, x = nn.Linear(8, 16), X.clone().requires_grad_()
    operations, *_ = count_work(lambda: layer(x).sum().backward())
    assert operations == 3 * (2 * 4 * 8 * 16)


@pytest.mark.parametrize(
    ("call", "size"),
    [
        (lambda: X + X, X.nbytes),
        (lambda: (X + 1) * (X + 2), X.nbytes),
        (lambda: X[:2] + 1, X.nbytes // 2),
        (lambda: X.t().contiguous(), X.nbytes),
        (X.t, 0),
        (lambda: torch.ones(9).mul_(2), 0),
        (lambda: X.clone().add_(X), X.nbytes),
        (lambda: nn.functional.embedding(torch.zeros(3, dtype=torch.long), BIG), 3 * 64 * 4),
        (lambda: BIG[torch.zeros(3, dtype=torch.long)], 3 * 64 * 4),
        (lambda: torch.cat([X, X.clone()]), X.nbytes),
    ],
)
def test_what_is_from_before_is_read_once(call: Callable[[], object], size: int) -> None:
    assert count_work(call)[:2] == (0, size)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_without_products_the_dtype_is_that_of_the_numbers(dtype: torch.dtype) -> None:
    x = X.to(dtype)
    assert count_work(lambda: torch.relu(x) * 2).dtype is dtype


def test_weights_are_what_is_read_of_parameters() -> None:
    table = nn.Embedding(1000, 64)
    rows = torch.zeros(3, dtype=torch.long)
    layer = nn.Linear(64, 2)
    assert count_work(lambda: layer(table(rows))).weights == size_of(layer)


def test_an_error_leaves_torch_as_it_was() -> None:
    with pytest.raises(RuntimeError, match="shapes"):
        count_work(lambda: X @ X)
    assert torch.backends.mha.get_fastpath_enabled()
    assert torch.equal(X + 1, torch.full((4, 8), 2.0))


def test_products_are_counted_by_the_dtype_of_their_operands() -> None:
    layers = nn.Sequential(nn.Linear(8, 16), nn.Softmax(-1), nn.Linear(16, 2))
    call = inference(layers, X)
    assert products_in(torch.bfloat16, call) == 0
    assert products_in(torch.float32, call) == count_work(call)[0]
    with torch.autocast("cpu", torch.bfloat16):
        assert products_in(torch.bfloat16, call) == count_work(call)[0]


def test_the_products_of_a_layer_that_is_one_operation_are_unknown() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    assert products_in(torch.float32, inference(layer, torch.ones(1, 4, 8))) is None
