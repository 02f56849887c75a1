"""Peers that do not come to an end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import torch

from benchmarks import peers
from benchmarks.zoo.model import Built

if TYPE_CHECKING:
    from collections.abc import Callable


def _endless(_built: Built) -> Callable[..., object]:
    def run() -> None:
        try:
            time.sleep(20)
        except Exception:  # noqa: BLE001 - as a backend has it that falls back to another
            return

    return run


def test_a_peer_that_is_not_ready_in_time_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PEERS", {"endless": _endless})
    monkeypatch.setattr(peers, "_LONGEST", 1)
    found = peers.peers(Built(torch.nn.ReLU(), (torch.ones(2),), {}))
    with pytest.raises(TimeoutError, match="not ready after 1 s"):
        found["endless"]()


class Remembering(torch.nn.Module):
    """Keeps its size as what it is while it is traced, as a tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum over a size that it keeps."""
        self.size = x.shape[0]
        return x.sum() / self.size


def test_a_peer_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "torch.jit.freeze"
    monkeypatch.setattr(peers, "PEERS", {name: peers.PEERS[name]})
    model = Remembering().eval()
    x = torch.ones(2)
    found = peers.peers(Built(model, (x,), {}))
    found[name](x)
    assert type(model.size) is int
