"""Each test with races of its own, and nothing compiled."""

from __future__ import annotations

import pytest
import torch

from dynamo_ext.auto import backend as auto
from dynamo_ext.auto.cache import Store


@pytest.fixture
def races(tmp_path, monkeypatch):
    """What ``auto`` remembers, empty; torch's compiled code is forgotten before and after."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    store = Store(tmp_path / "races.sqlite")
    monkeypatch.setattr(auto.BACKEND, "store", store)
    yield store
    torch._dynamo.reset()
