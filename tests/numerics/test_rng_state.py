"""The user's random numbers, and what leaves them as they are."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import torch

from dynamo_ext.numerics.rng_state import HostState, TorchState, host_kept
from tests.backends.own_process import silent


def host_numbers() -> tuple[float, float]:
    return random.random(), np.random.rand()


def test_random_state_comes_back() -> None:
    state = TorchState()
    first = torch.rand(3)
    state.restore()
    assert torch.equal(torch.rand(3), first)


def test_pythons_and_numpys_state_come_back() -> None:
    state = HostState()
    first = host_numbers()
    state.restore()
    assert host_numbers() == first


def test_they_come_back_from_a_block_that_fails() -> None:
    state = HostState()
    expected = host_numbers()
    state.restore()
    with contextlib.suppress(KeyError), host_kept():
        host_numbers()
        raise KeyError
    assert host_numbers() == expected


def test_the_users_random_numbers_go_on_as_they_would() -> None:
    silent("""
import random
import numpy as np
import torch
from dynamo_ext.backends import registry
for engine in ("xla", "onnx2tf"):
    torch._dynamo.reset()
    np.random.seed(1)
    random.seed(1)
    expected = np.random.rand(), random.random()
    np.random.seed(1)
    random.seed(1)
    # Looking for an engine may import it, too.
    if registry.probe(registry.get(engine)).available:
        with torch.no_grad():
            torch.compile(lambda x: x.sin() + 1, backend=registry.compiler(engine))(torch.ones(3))
    assert (np.random.rand(), random.random()) == expected, engine
""")
