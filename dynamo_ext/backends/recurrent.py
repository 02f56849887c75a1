"""``torch.gru``, ``rnn_tanh``, ``rnn_relu`` and ``lstm`` as operators that stay whole.

Wherever torch's own are traced, they are cut into the operations of every step: a graph as long as
the sequence, of one length only, and that no engine knows as what it is. These are the same
kernels by names of ours, which nothing decomposes. They have no gradients.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

NAMESPACE = "dynamo_ext"

_SETTINGS = (
    "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first"
)
_SCHEMAS = {
    "gru": f"(Tensor input, Tensor hx, {_SETTINGS}) -> (Tensor, Tensor)",
    "rnn_tanh": f"(Tensor input, Tensor hx, {_SETTINGS}) -> (Tensor, Tensor)",
    "rnn_relu": f"(Tensor input, Tensor hx, {_SETTINGS}) -> (Tensor, Tensor)",
    "lstm": f"(Tensor input, Tensor[] hx, {_SETTINGS}) -> (Tensor, Tensor, Tensor)",
}


@functools.cache
def operators() -> Mapping[Any, Any]:
    """For each of torch's functions, the operator that stands for it in captured graphs."""
    import torch

    library = _library()
    found = {}
    for name, schema in _SCHEMAS.items():
        function = getattr(torch, name)
        library.define(name + schema)
        library.impl(name, function, "CompositeExplicitAutograd")
        fake = _like_lstm if name == "lstm" else _like_gru
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)
        found[function] = getattr(getattr(torch.ops, NAMESPACE), name).default
    return found


@functools.cache
def _library() -> Any:
    """What the operators are registered in, for as long as it is referred to."""
    import torch

    return torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]


def _like_gru(  # noqa: PLR0913, PLR0917 - the operator's own signature
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    params: Sequence[torch.Tensor],
    has_biases: bool,  # noqa: FBT001
    num_layers: int,
    dropout: float,
    train: bool,  # noqa: FBT001
    bidirectional: bool,  # noqa: FBT001
    batch_first: bool,  # noqa: FBT001
) -> tuple[torch.Tensor, torch.Tensor]:
    del params, has_biases, num_layers, dropout, train
    steps = _steps(inputs, hidden, bidirectional=bidirectional, batch_first=batch_first)
    return steps, hidden.new_empty(hidden.shape)


def _like_lstm(  # noqa: PLR0913, PLR0917
    inputs: torch.Tensor,
    states: Sequence[torch.Tensor],
    params: Sequence[torch.Tensor],
    has_biases: bool,  # noqa: FBT001
    num_layers: int,
    dropout: float,
    train: bool,  # noqa: FBT001
    bidirectional: bool,  # noqa: FBT001
    batch_first: bool,  # noqa: FBT001
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    del params, has_biases, num_layers, dropout, train
    hidden, cell = states
    steps = _steps(inputs, hidden, bidirectional=bidirectional, batch_first=batch_first)
    return steps, hidden.new_empty(hidden.shape), cell.new_empty(cell.shape)


def _steps(
    inputs: torch.Tensor, hidden: torch.Tensor, *, bidirectional: bool, batch_first: bool
) -> torch.Tensor:
    """What each step gives: steps lie one after another in memory, whatever comes first."""
    first, second = inputs.shape[:2]
    width = hidden.shape[-1] * (2 if bidirectional else 1)
    if batch_first:
        return inputs.new_empty(second, first, width).transpose(0, 1)
    return inputs.new_empty(first, second, width)
