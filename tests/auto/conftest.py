"""Each test with races of its own, and nothing compiled."""

from __future__ import annotations

import pytest
import torch

from dynamo_ext.auto import backend as auto
from dynamo_ext.auto import graph_race, turns
from dynamo_ext.auto.cache import Store


class Company:
    """A machine on which other programs keep so many cores busy, whatever runs beside the test."""

    def __init__(self, cores: float = 0.0) -> None:
        self.cores = cores

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def _quiet_machine(monkeypatch):
    monkeypatch.setattr(graph_race, "MachineLoad", Company)


@pytest.fixture(autouse=True)
def short_trials(monkeypatch):
    """Each turn of an assignment is one round to begin with, and one that counts."""
    monkeypatch.setattr(turns, "LEAD_IN_SECONDS", 1e-6)
    monkeypatch.setattr(turns, "SAMPLE_SECONDS", 1e-6)


@pytest.fixture
def races(tmp_path, monkeypatch):
    """What ``auto`` remembers, empty; torch's compiled code is forgotten before and after."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    store = Store(tmp_path / "races.sqlite")
    monkeypatch.setattr(auto.BACKEND, "store", store)
    yield store
    torch._dynamo.reset()
