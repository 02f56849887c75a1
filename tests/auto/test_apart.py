"""Races in other processes: who dies has lost, and executors carry them."""

from __future__ import annotations

import os
import signal
import sys

import cloudpickle
import pytest
import torch

import dynamo_ext
from dynamo_ext.auto import apart
from dynamo_ext.auto import backend as auto
from dynamo_ext.auto.store import Store
from dynamo_ext.errors import OptionError
from dynamo_ext.measure.candidates import candidates_of

pytestmark = pytest.mark.usefixtures("races")


@pytest.fixture(autouse=True, scope="module")
def _by_value():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def fine(graph, inputs):
    return graph.forward


def dying(graph, inputs):
    os.kill(os.getpid(), signal.SIGSEGV)


def wrong(graph, inputs):
    return lambda *args: [value + 1 for value in graph.forward(*args)]


def model():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()


def captured(module, *args):
    found = []

    def keep(graph, inputs):
        found.append((graph, list(inputs)))
        return graph.forward

    with torch.no_grad():
        torch.compile(module, backend=keep)(*args)
    return found[0]


def test_who_dies_has_lost_and_the_others_race(monkeypatch):
    forms = {"fine": fine, "dying": dying, "wrong": wrong}
    monkeypatch.setattr(
        apart, "candidates_of", lambda names: candidates_of({n: forms[n] for n in names})
    )
    graph, inputs = captured(model(), torch.randn(4, 8))
    with torch.no_grad():
        held = apart.hold(
            graph, inputs, list(forms), budget=0.5, compile_budget=300, training=False, carrier=None
        )
    found = {row.backend: row for row in held.contestants}
    assert found.keys() == {"eager", *forms}
    assert held.winner in {"eager", "fine"}
    assert found["dying"].outcome == "crashed"
    assert "signal 11" in found["dying"].reason
    # Its own first check found it wrong, and eager took over.
    assert found["wrong"].outcome == "eager"
    assert found["fine"].seconds > 0
    store = auto.BACKEND.store
    place = '{"device": "here", "backends": {"dying": "1", "fine": "1"}}'
    store.remember("graph", place, held)
    assert store.crashed("graph", place) == {"dying"}
    assert store.crashed("graph", place.replace('"dying": "1"', '"dying": "2"')) == set()
    assert store.crashed("graph", place.replace("here", "there")) == set()
    assert store.crashed("another", place) == set()


def test_weights_stay_weights_there():
    module = model()
    graph, inputs = captured(module, torch.randn(4, 8))
    held = apart.Held(graph, inputs)
    assert len(list(held.parameters())) == 4
    [x] = [value for value in inputs if not isinstance(value, torch.nn.Parameter)]
    assert torch.equal(held(x)[0], module(x))


def test_isolated_races_of_real_backends():
    net, x = model(), torch.randn(4, 8)
    options = {"candidates": "onnxrt+aot_eager", "budget": 0.5, "isolate": True}
    with torch.no_grad():
        fast = dynamo_ext.optimize("auto", options=options)(net)
        torch.testing.assert_close(fast(x), net(x))
        [graph] = fast.report().graphs
    assert {row.backend for row in graph.contest.contestants} == {"eager", "onnxrt", "aot_eager"}
    assert {row.outcome for row in graph.contest.contestants} <= {"won", "slower", "same"}
    assert len(auto.BACKEND.store.all()) == 1


def test_what_died_before_is_left_out(monkeypatch):
    net, x = model(), torch.randn(4, 8)
    monkeypatch.setattr(Store, "crashed", lambda *_: {"aot_eager"})
    with torch.no_grad():
        fast = dynamo_ext.optimize("auto", options={"candidates": "ts+aot_eager", "budget": 0.3})(
            net
        )
        torch.testing.assert_close(fast(x), net(x))
        [graph] = fast.report().graphs
    found = {row.backend: row for row in graph.contest.contestants}
    assert found["aot_eager"].outcome == "crashed"
    assert "before" in found["aot_eager"].reason
    assert found["ts"].seconds


def test_a_dask_cluster_carries_races(dask_client):
    net, x = model(), torch.randn(4, 8)
    options = {"candidates": "onnxrt+ts", "budget": 0.5}
    with torch.no_grad(), dynamo_ext.race_on(dask_client.get_executor()):
        fast = dynamo_ext.optimize("auto", options=options)(net)
        torch.testing.assert_close(fast(x), net(x))
        [graph] = fast.report().graphs
    assert {row.backend for row in graph.contest.contestants} == {"eager", "onnxrt", "ts"}
    assert all(row.seconds for row in graph.contest.contestants)
    assert apart.executor() is None


def test_a_graph_that_cannot_be_sent_stays_eager_and_says_so(monkeypatch):
    def refuse(*args, **kwargs):
        message = "The code cannot be sent."
        raise OptionError(message, "")

    monkeypatch.setattr(apart, "compare_apart", refuse)
    net, x = model(), torch.randn(4, 8)
    with torch.no_grad():
        fast = dynamo_ext.optimize("auto", options={"isolate": True, "candidates": "ts"})(net)
        torch.testing.assert_close(fast(x), net(x))
        report = fast.report()
    assert any("cannot be sent" in fallback.message for fallback in report.fallbacks)
