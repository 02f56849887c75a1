"""The high-water mark of a call."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from dynamo_ext.measure.memory import peak_of

MIB = 2**20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which Linux has")


def test_what_a_call_holds_at_its_height_counts_and_what_it_lets_go_does_too():
    small = peak_of(lambda: torch.ones(1))
    assert small is not None
    assert small < 16 * MIB
    # 128 MiB of torch's, then as much of NumPy's, never both at once.
    large = peak_of(lambda: (torch.ones(32 * MIB).sum(), np.ones(16 * MIB).sum()))
    assert large is not None
    assert 100 * MIB < large < 200 * MIB


def test_what_was_there_before_does_not_count():
    kept = torch.ones(32 * MIB)
    found = peak_of(kept[0].item)
    assert found is not None
    assert found < 16 * MIB
