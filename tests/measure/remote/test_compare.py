"""Candidates in processes of their own: what they do to those is a row, and nothing else."""

from __future__ import annotations

import _thread
import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
import torch

import dynamo_ext
from dynamo_ext.errors import OptionError
from dynamo_ext.measure.candidates import candidates_of
from dynamo_ext.measure.progress import reporting_to
from dynamo_ext.measure.remote import serialization, worker
from dynamo_ext.measure.remote.compare import compare_anywhere
from dynamo_ext.measure.settings import Settings
from dynamo_ext.measure.workload import FunctionWorkload
from tests.capture.live import live
from tests.magics.shell import interruptible

ROUNDS = 8


def fine(graph, inputs):
    return graph.forward


def slow(graph, inputs):
    def run(*args):
        end = time.perf_counter() + 0.004
        while time.perf_counter() < end:
            pass
        return graph.forward(*args)

    return run


def crashing(graph, inputs):
    ctypes.string_at(0)


def leaving(graph, inputs):
    os._exit(3)


def hanging(graph, inputs):
    time.sleep(1_000)


def killed(graph, inputs):
    # What the kernel does to a process where memory runs out.
    os.kill(os.getpid(), signal.SIGKILL)


def starving(graph, inputs):
    used = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
    return bytearray(2**31)


def quitting(graph, inputs):
    sys.exit(4)


_lock = threading.Lock()


def locked(graph, inputs):
    with _lock:
        return graph.forward


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def workers():
    """The processes that measure for us and that are still there."""
    children = psutil.Process().children(recursive=True)
    return [each for each in children if "measure.remote" in " ".join(each.cmdline())]


@pytest.fixture(scope="module")
def deadly():
    candidates = [fine, crashing, leaving, killed, starving, quitting, locked, "tensorrt"]
    return dynamo_ext.compare(
        model(), (torch.randn(4, 8),), candidates, rounds=ROUNDS, isolate=True
    )


@pytest.mark.parametrize(
    ("name", "outcome", "words"),
    [
        ("crashing", "failed", "signal 11, segmentation fault). It was in string_at ("),
        ("leaving", "failed", "exited by itself (code 3)"),
        ("killed", "failed", "signal 9), as the system does when memory runs out"),
        ("starving", "eager", "MemoryError"),
        ("quitting", "failed", "SystemExit: 4"),
        ("locked", "failed", "cannot pickle '_thread.lock'"),
        ("tensorrt", "unavailable", "not installed"),
    ],
)
def test_what_becomes_of_a_process_is_a_row(deadly, name, outcome, words):
    row = deadly[name]
    assert row.outcome == outcome
    assert words in row.reason


def test_the_others_go_on_and_no_process_is_left(deadly):
    found = deadly
    assert found.record.isolated
    assert not found.record.partial
    assert found["fine"].outcome == "measured"
    assert len(found["fine"].timing.samples) == ROUNDS
    assert workers() == []


def test_a_hang_is_stopped():
    found = dynamo_ext.compare(
        model(), (torch.ones(4, 8),), [hanging], budget=1, first_run=4, isolate=True
    )
    row = found["hanging"]
    assert (row.outcome, row.reason) == ("failed", "It was stopped after 5 s.")
    assert "first_run" in row.remedy
    assert found["eager"].outcome == "unmeasured"
    assert workers() == []


def test_the_rows_say_what_they_say_in_this_process():
    net, x = model(), torch.randn(4, 8)
    before = [each.clone() for each in net.parameters()]
    listed = [slow, "aot_eager"]
    here = dynamo_ext.compare(net, (x,), listed, rounds=ROUNDS, train=True)
    there = dynamo_ext.compare(net, (x,), listed, rounds=ROUNDS, train=True, isolate=True)
    for a, b in zip(here.record.candidates, there.record.candidates, strict=True):
        for same in ("name", "backend", "outcome", "operations", "in_engine", "graphs", "accuracy"):
            assert getattr(a, same) == getattr(b, same), same
        assert (a.timing is None) == (b.timing is None)
    assert there["slow"].speedup.ratio < 0.5
    assert (here.record.title, here.record.device) == (there.record.title, there.record.device)
    assert any("middle one of 2" in note for note in there.record.notes)
    assert all(torch.equal(p, was) for p, was in zip(net.parameters(), before, strict=True))
    assert all(p.grad is None for p in net.parameters())


def test_an_error_of_the_code_itself_is_raised_here():
    def f(x):
        raise KeyError(x)

    with pytest.raises(KeyError, match="tensor") as caught:
        dynamo_ext.compare(f, (torch.ones(3),), [fine, hanging], isolate=True)
    assert "in f" in caught.value.__notes__[0]


def test_a_baseline_that_is_a_candidate_is_measured_beside_the_others():
    found = dynamo_ext.compare(
        model(), (torch.ones(4, 8),), [slow, fine], baseline="slow", rounds=ROUNDS, isolate=True
    )
    assert [each.name for each in found.record.candidates] == ["slow", "fine"]
    assert found["fine"].speedup.ratio > 2


def test_an_argument_that_cannot_be_sent_is_named():
    with pytest.raises(OptionError, match=r"args\[1\] cannot be sent .*lock.*without isolate"):
        dynamo_ext.compare(model(), (torch.ones(1), _lock), [fine], isolate=True)


def test_an_interrupt_keeps_what_was_measured_and_leaves_no_process():
    settings = Settings(rounds=ROUNDS, isolate=True)
    task = FunctionWorkload(model(), (torch.ones(4, 8),))

    def interrupt(step):
        if step.candidate == "hanging":
            threading.Timer(1.0, _thread.interrupt_main).start()

    listed = candidates_of([fine, hanging, slow])
    with interruptible(), reporting_to(interrupt):
        record = compare_anywhere(task, listed, settings)
    assert [each.outcome for each in record.candidates] == ["measured"] * 2 + ["unmeasured"] * 2
    assert (record.partial, record.interrupted) == (True, True)
    assert workers() == []


def test_a_cell_is_rebuilt_in_the_other_process():
    setup = """
import threading
lock = threading.Lock()
torch.manual_seed(0)
net = torch.nn.Linear(4, 4)
x = torch.randn(8, 4)
scale = 2.0

class Block(torch.nn.Module):
    def forward(self, v):
        return f(v)

def f(v):
    return v * scale

def fine(graph, inputs):
    return graph.forward
"""
    with live(setup) as cells:
        cells.well(
            "%%dynamo compare -b fine --isolate -n 8 --quiet -o r\n"
            "scale = 3.0\ny = torch.nn.Sequential(net, Block())(x) if scale else lock\ny.sum()"
        )
        record = cells.names["r"].record
        [_, row] = record.candidates
        # y, scale and the displayed sum.
        assert (row.outcome, row.accuracy[0].outputs) == ("measured", 3)
        assert row.accuracy[0].within
        assert record.cell is not None
        assert "lock was not sent" in " ".join(record.notes)
        assert cells.names["scale"] == 2.0
        assert "y" not in cells.names
        failed = cells.run(
            "%%dynamo compare -b fine --isolate -n 8 --quiet\nwith lock:\n    y = net(x)"
        )
        assert "The cell reads lock, which cannot be sent" in failed.shown + failed.err


SCRIPT = """
import torch, dynamo_ext

gain = 2.0

def helper(x):
    return x.relu() * gain

class Net(torch.nn.Module):
    def forward(self, x):
        return helper(x)

def fine(graph, inputs):
    return graph.forward

print("main")
# A library's module inlines one of this script's, which reads this script's globals.
net = torch.nn.Sequential(Net(), torch.nn.ReLU())
found = dynamo_ext.compare(net, (torch.ones(3),), [fine], rounds=8, isolate=True)
print(found["fine"].outcome, found["fine"].graphs, found["fine"].breaks)
"""


@pytest.mark.parametrize("form", ["file", "-c"])
def test_a_script_without_a_main_guard_runs_once(tmp_path, form):
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    command = [sys.executable, *([str(file)] if form == "file" else ["-c", SCRIPT])]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.stdout.split("\n")[:2] == ["main", "measured 1 0"], ran.stderr


def packed(task):
    return serialization.pack(task, candidates_of([fine]), Settings(rounds=ROUNDS))


def test_what_a_worker_lacks_is_said():
    task = FunctionWorkload(model(), (torch.ones(4, 8),))
    broken = packed(task).replace(b"torch.nn.modules.linear", b"torch.nn.modules.linera")
    answer = worker.measure(broken)
    assert "cannot rebuild" in answer.reason


def test_memory_that_is_shared_and_gradients_travel():
    net = model()
    net(torch.ones(4, 8)).sum().backward()
    view = net[0].weight.detach()[:2]
    with serialization.unpacked(packed(FunctionWorkload(net, (view,)))) as parts:
        roots = parts["workload"].roots
        weight = roots["target"][0].weight
        assert torch.equal(weight.grad, net[0].weight.grad)
        with torch.no_grad():
            weight[0, 0] = 42
        assert roots["args"][0][0, 0] == 42
    assert net[0].weight[0, 0] != 42
