"""Training steps of models of the zoo: forward, loss, gradients and weights, in one call."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from benchmarks.zoo import images, recommend, small, text
from benchmarks.zoo.model import Built, Model, tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RATE = 1e-3


class Step(nn.Module):
    """One step of plain gradient descent, as a training loop's body has it.

    Parameters
    ----------
    model
        What learns. Its dropout is switched off: some backends draw random numbers of their own.
    loss
        Of the model's output.
    """

    def __init__(self, model: nn.Module, loss: Callable[[Any], torch.Tensor]) -> None:
        super().__init__()
        for layer in model.modules():
            if isinstance(layer, nn.Dropout):
                layer.p = 0.0
        self.model = model
        self.loss = loss
        self.optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Learn from one batch, given as the model's arguments; gives the loss."""
        self.optimizer.zero_grad()
        loss = self.loss(self.model(*args, **kwargs))
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()


def learnt(module: nn.Module) -> list[torch.Tensor]:
    """Copies of what a training step has left: gradients and weights. Nothing of other modules."""
    if not isinstance(module, Step):
        return []
    weights = list(module.parameters())
    found = [*(w.grad for w in weights if w.grad is not None), *weights]
    return [tensor.detach().clone() for tensor in found]


def distance(output: Any) -> torch.Tensor:
    """How far a model's results are from a ramp: their mean square is constant behind a norm."""
    losses = [
        (leaf.float() - torch.linspace(-1, 1, leaf.shape[-1], device=leaf.device)).square().mean()
        for leaf in tensors(output)
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    ]
    return torch.stack(losses).sum()


@contextlib.contextmanager
def unlearnt(module: nn.Module) -> Iterator[None]:
    """Put a training step's weights and statistics back at the end of the block."""
    if not isinstance(module, Step):
        yield
        return
    before = {name: value.clone() for name, value in module.state_dict().items()}
    try:
        yield
    finally:
        module.load_state_dict(before)
        module.zero_grad()


def _step_of(model: Model) -> Model:
    def stepped(build: Callable[[], Built]) -> Callable[[], Built]:
        def made() -> Built:
            built = build()
            return built._replace(module=Step(built.module, distance))

        return made

    return Model(
        f"{model.name}, training step",
        f"{model.source}; its distance from a ramp as the loss, and plain gradient descent",
        stepped(model.usual),
        stepped(model.tiny),
        learns=True,
        batched=model.batched,
    )


_FAMILIES = (small, images, text, recommend)
_LEARNERS = ("MLP", "ResNet-18", "ELECTRA", "DLRM")

MODELS = tuple(
    _step_of(model) for family in _FAMILIES for model in family.MODELS if model.name in _LEARNERS
)
