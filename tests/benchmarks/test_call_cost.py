"""The call-cost benchmark measures what it says; how long anything takes is not asserted."""

from __future__ import annotations

import pytest
import torch

from benchmarks import call_cost
from benchmarks.call_split import candidates


@pytest.mark.parametrize("name", ["ts", "onnxrt", "openvino"])
def test_the_candidates_compute_the_same(name):
    torch._dynamo.reset()
    for function, x in call_cost.workloads().values():
        with torch.no_grad():
            calls = candidates(function, x, [name]).calls
            expected = function(x)
            for key in ("torch eager", "guards", "aot", name, f"{name} empty"):
                for _ in range(3):
                    torch.testing.assert_close(calls[key](), expected)
            [result] = calls[f"{name} run"]()
            torch.testing.assert_close(result, expected)
            for _ in range(3):
                calls[f"{name} bare"]()


def test_a_difference_is_taken_within_a_round():
    times = call_cost.Times({"a": [5.0, 50.0, 6.0], "b": [1.0, 45.0, 3.0]})
    assert times.difference("a", "b") == 4
    assert times.median("a") == 6
    assert times.spread("b") == (2, 24)


def test_our_share_is_dispatch_and_binding():
    rounds = {"aot": 10, "x": 30, "x empty": 11, "x run": 9, "x bare": 6, "y": 5, "torch y": 4}
    times = call_cost.Times({name: [float(value)] * 3 for name, value in rounds.items()})
    assert call_cost.own_share(times, "x") == 4
    assert call_cost.own_share(times, "y") == 1
