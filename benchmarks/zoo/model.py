"""What a model of the zoo is: how to build it, at full size and tiny."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.zoo.form import LARGER, USUAL, Form

if TYPE_CHECKING:
    import torch

SEED = 2026


class Built(NamedTuple):
    """A module with float32 weights, and one call's arguments; in train mode if it is a step."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def gradients(self) -> contextlib.AbstractContextManager[Any]:
        """The mode that a call of it wants: with gradients for a training step, else without."""
        import torch

        return torch.set_grad_enabled(self.module.training)


@dataclass(frozen=True)
class Model:
    """One model of the zoo.

    Parameters
    ----------
    name
        As tables write it.
    source
        Whose code it is, and which configuration.
    usual
        Builds the size that tables are made with: runs on two cores.
    tiny
        Builds the same architecture with fewer layers and channels, for tests.
    learns
        Whether a call of the module is a training step, which changes its weights.
    batched
        Whether each tensor of its arguments has the batch first, so that a larger one can be made
        of it.
    """

    name: str
    source: str
    usual: Callable[[], Built]
    tiny: Callable[[], Built]
    learns: bool = False
    batched: bool = True

    def build(self, form: Form = USUAL) -> Built:
        """A new module and arguments, the same ones each time.

        Parameters
        ----------
        form
            At which size, and where. A model without a batch has no large form and is built as
            usual.
        """
        import torch

        torch.manual_seed(SEED)
        module, args, kwargs = (self.tiny if form.tiny else self.usual)()
        copies = LARGER if form.size == "large" and self.batched else 1

        def placed(tensor: torch.Tensor) -> torch.Tensor:
            larger = torch.cat([tensor] * copies) if copies > 1 else tensor
            return larger.to(form.device)

        module = module.train(self.learns).to(form.device)
        return Built(module, mapped(args, placed), mapped(kwargs, placed))


def settle(module: torch.nn.Module, *args: Any) -> torch.nn.Module:
    """Give batch normalisation the statistics of one batch, so that activations keep their size.

    With random weights and the statistics of no data, a deep network's output is nearly zero or
    enormous, and no comparison of it means anything.
    """
    import torch

    norms = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        module.train()(*args)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    return module.eval()


def drawn(module: torch.nn.Module) -> torch.nn.Module:
    """Draw weights with which activations keep their size through ReLUs (arXiv:1502.01852)."""
    from torch import nn

    for layer in module.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.ones_(layer.weight)
    return module


def tokens(words: int, time: int, padded: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids (1, time) and a mask of the same shape whose last ``padded`` places are 0."""
    import torch

    mask = torch.ones(1, time, dtype=torch.int64)
    if padded:
        mask[:, -padded:] = 0
    return torch.randint(0, words, (1, time)), mask


def tensors(value: Any) -> list[Any]:
    """Everything in a nest of mappings and sequences that is neither, in order."""
    if isinstance(value, Mapping):
        return [leaf for part in value.values() for leaf in tensors(part)]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [leaf for part in value for leaf in tensors(part)]
    return [value]


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A nest of dicts, lists and tuples with each tensor of it changed."""
    import torch

    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(part, change) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(part, change) for part in value)
    return value
