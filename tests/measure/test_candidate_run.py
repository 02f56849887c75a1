"""Calling on until a backend has settled, and what a row says of its precision."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dynamo_ext.backends import precision
from dynamo_ext.measure.candidate_run import CompiledCandidate, settle


@pytest.mark.parametrize("backend", [None, SimpleNamespace(), SimpleNamespace(unsettled_calls=0)])
def test_what_tries_nothing_is_not_called(backend):
    calls = []
    settle(backend, lambda: calls.append(1), 9.0)
    assert not calls


@pytest.mark.parametrize(("seconds", "expected"), [(9.0, 4), (0.0, 0)])
def test_it_calls_until_the_count_stands_still_or_time_is_up(seconds, expected):
    backend, calls = SimpleNamespace(unsettled_calls=2), []

    def call():
        calls.append(1)
        backend.unsettled_calls += 2 * (len(calls) < 4)

    settle(backend, call, seconds)
    assert len(calls) == expected


@pytest.mark.parametrize(
    ("asked", "won", "expected"),
    [
        ("bf16", [], "bf16"),
        ("float32", ["float32", "float32"], "float32"),
        ("float32", ["int8"], "int8"),
        ("float32", ["int8", "float32", "bf16"], "bf16+float32+int8"),
    ],
)
def test_a_row_has_the_precision_of_the_backends_that_won_its_graphs(asked, won, expected):
    raced = [
        SimpleNamespace(
            precision=each,
            contest=SimpleNamespace(winner=precision.label("backend", {"precision": each})),
        )
        for each in won
    ]
    other = SimpleNamespace(precision=asked, contest=None)
    found = SimpleNamespace(
        candidate=SimpleNamespace(precision=asked, backend="auto"),
        report=SimpleNamespace(graphs=(*raced, other)),
    )
    assert CompiledCandidate._precision(found) == expected
