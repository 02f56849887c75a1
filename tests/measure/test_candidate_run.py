"""Calling on until a backend has settled."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dynamo_ext.measure.candidate_run import settle


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
