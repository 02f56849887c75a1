"""Operators that stay whole: torch's own kernels, and what is known of them without running."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import recurrent

FORMS: list[dict[str, Any]] = [
    {},
    {"batch_first": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
    {"bias": False, "num_layers": 2},
]
KINDS: dict[str, Any] = {
    "gru": nn.GRU,
    "lstm": nn.LSTM,
    "rnn_tanh": nn.RNN,
    "rnn_relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernels_are_torchs_and_their_shapes_known(kind: str, form: Any, dtype: Any) -> None:
    layers = KINDS[kind](4, 5, dtype=dtype, **form).eval()
    ways = layers.num_layers * (2 if layers.bidirectional else 1)
    batch = 3 if layers.batch_first else 6
    state = torch.randn(ways, batch, 5, dtype=dtype)
    states: Any = [state, state + 1] if kind == "lstm" else state
    given = (
        torch.randn(3, 6, 4, dtype=dtype), states, list(layers.parameters()), layers.bias,
        layers.num_layers, 0.0, False, layers.bidirectional, layers.batch_first,
    )  # fmt: skip
    function = getattr(torch, kind)
    operator = recurrent.operators()[function]
    with torch.no_grad():
        found, expected = operator(*given), function(*given)
        for mine, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
        torch.library.opcheck(operator, given, test_utils=("test_schema", "test_faketensor"))
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        fakes = operator(*given)
    for fake, theirs in zip(fakes, expected, strict=True):
        assert (fake.shape, fake.stride(), fake.dtype) == (
            theirs.shape, theirs.stride(), theirs.dtype,
        )  # fmt: skip


@pytest.mark.filterwarnings("ignore:LSTM with projections")  # eager says so, too
def test_with_projections() -> None:
    layers = nn.LSTM(4, 6, proj_size=2).eval()
    hidden, cell = torch.randn(1, 3, 2), torch.randn(1, 3, 6)
    given = (
        torch.randn(7, 3, 4), [hidden, cell], list(layers.parameters()), True, 1, 0.0, False,
        False, False,
    )  # fmt: skip
    with torch.no_grad():
        found = recurrent.operators()[torch.lstm](*given)
        expected = torch.lstm(*given)
    assert [each.shape for each in found] == [each.shape for each in expected]
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
