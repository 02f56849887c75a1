"""Other programs' share of the machine while something is measured."""

from __future__ import annotations

import pytest

from dynamo_ext.timing import machine_load
from dynamo_ext.timing.machine_load import MachineLoad


def watched(monkeypatch, *, passed, busy, own):
    """What a block of so many seconds says, in which the machine and this process worked so much."""
    for name, end in (("_busy", busy), ("_own", own)):
        values = iter((10.0, 10.0 + end))
        monkeypatch.setattr(machine_load, name, lambda values=values: next(values))
    clock = iter((5.0, 5.0 + passed))
    monkeypatch.setattr(machine_load.time, "perf_counter", lambda: next(clock))
    with MachineLoad() as found:
        pass
    return found


def test_others_are_what_this_process_did_not_do(monkeypatch):
    found = watched(monkeypatch, passed=4.0, busy=7.0, own=3.0)
    assert found.cores == pytest.approx(1.0)
    assert "Other programs kept 1.0 of" in found.sentence


@pytest.mark.parametrize(
    ("passed", "busy", "own"), [(4.0, 4.4, 4.0), (4.0, 3.0, 4.0), (0.1, 0.2, 0.0)]
)
def test_nothing_is_said_of_little(monkeypatch, passed, busy, own):
    assert watched(monkeypatch, passed=passed, busy=busy, own=own).sentence == ""


def test_the_systems_own_counters():
    with MachineLoad() as found:
        sum(range(10_000_000))
    assert 0.0 <= found.cores < 1024
