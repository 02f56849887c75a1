"""Candidates carried by executors of others: threads, processes, Dask, ipyparallel."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import warnings

import pytest
import torch

import dynamo_ext
from dynamo_ext.measure.candidates import candidates_of
from dynamo_ext.measure.remote.serialization import pack
from dynamo_ext.measure.settings import Settings
from dynamo_ext.measure.workload import FunctionWorkload

ROUNDS = 8


def fine(graph, inputs):
    return graph.forward


def other(graph, inputs):
    return graph.forward


def leaving(graph, inputs):
    os._exit(3)


def model():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def compared(executor, backends=(fine, other), **settings):
    return dynamo_ext.compare(
        model(), (torch.randn(4, 8),), list(backends), rounds=ROUNDS, executor=executor, **settings
    )


def check(found):
    assert found.record.isolated
    for name in ("fine", "other"):
        assert found[name].outcome == "measured", found[name].reason
        assert found[name].accuracy[0].within
        assert found[name].speedup.rounds == ROUNDS
    assert found["eager"].worker in {found["fine"].worker, found["other"].worker}


def test_threads_take_turns():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = compared(pool, per_graph=True, budget=5)
    check(found)
    [graph] = found.record.graphs
    assert {each.backend for each in graph.times} == {"eager", "fine", "other"}
    assert graph.fastest
    assert any("A mix needs" in note for note in found.record.notes)


def test_the_codes_own_error_is_raised_here():
    def f(x):
        raise KeyError(x)

    with concurrent.futures.ThreadPoolExecutor(1) as pool, pytest.raises(KeyError, match="tensor"):
        dynamo_ext.compare(f, (torch.ones(3),), [fine], executor=pool)


def test_an_executor_that_is_shut_down_is_a_reason():
    pool = concurrent.futures.ThreadPoolExecutor(1)
    pool.shutdown()
    found = compared(pool)
    assert found["fine"].outcome == "failed"
    assert "The executor accepted no task" in found["fine"].reason
    assert found["eager"].outcome == "unmeasured"


def test_the_standard_librarys_processes():
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        check(compared(pool))
        broken = compared(pool, [leaving])["leaving"]
    assert broken.outcome == "failed"
    assert "died" in broken.reason
    assert "isolate=True" in broken.remedy


def test_a_dask_cluster_of_two_workers(dask_client):
    found = compared(dask_client.get_executor())
    check(found)
    assert found["fine"].worker != found["other"].worker


def test_a_dask_worker_that_dies_is_a_row(dask_client):
    found = compared(dask_client.get_executor(), [leaving, fine])
    assert found["leaving"].outcome == "failed"
    assert "KilledWorker" in found["leaving"].reason
    assert found["fine"].outcome == "measured"


def test_no_two_payloads_are_equal():
    # Dask gives the result that it has for a call that it knows.
    task = FunctionWorkload(torch.sin, (torch.ones(1),))
    made = [pack(task, candidates_of([fine]), Settings(), local=False) for _ in range(2)]
    assert made[0] != made[1]


@pytest.fixture(scope="module")
def engines():
    ipyparallel = pytest.importorskip("ipyparallel")
    with warnings.catch_warnings():
        # ipyparallel leaves sockets and loops to the garbage collector, and calls old names.
        warnings.simplefilter("ignore")
        with ipyparallel.Cluster(n=2, log_level=40) as client:
            client.wait_for_engines(2, timeout=60)
            yield client


def test_ipyparallel_engines(engines):
    check(compared(engines.executor()))


def test_ipyparallel_on_every_engine(engines):
    found = compared(engines[:].executor, [fine])
    assert found["fine"].outcome == "measured"
    assert any("on every engine" in note for note in found.record.notes)
