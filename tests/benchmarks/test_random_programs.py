"""Random programs: what is drawn, how it is judged, and a hundred of them on every CPU engine."""

from __future__ import annotations

import logging

import pytest
import torch

from benchmarks.backends import ENGINES
from benchmarks.random_programs import judge, sequences
from benchmarks.random_programs.check import check
from benchmarks.random_programs.generate import program
from benchmarks.random_programs.program import Program
from dynamo_ext.backends import registry

SHARES = {
    **dict.fromkeys(ENGINES, 14),
    "onnxrt": 20,
    "openvino": 24,
    "tvm": 8,
    "xla": 8,
    "onnx2tf": 2,
}
"""Of about a hundred programs; fewer for engines that take long to compile one."""


def made(body, returned="y", call="x = numbers(0, 6, torch.float32).view(2, 3)"):
    return Program(0, ("x",), tuple(body), (returned,), ((call,), (call,)))


def looked_at(body):
    ready = made([body]).ready()
    return judge.seen(ready.function, ready.calls[0]())


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    logging.disable(logging.NOTSET)
    torch._dynamo.reset()


def first_seed(engine):
    names = list(SHARES)
    return 10_000 + sum(SHARES[name] for name in names[: names.index(engine)])


@pytest.mark.sweep
@pytest.mark.parametrize("engine", SHARES)
def test_programs_do_what_they_do_in_eager(engine):
    if not registry.probe(registry.get(engine)).available:
        pytest.skip(f"{engine} cannot run here")
    start = first_seed(engine)
    for seed in range(start, start + SHARES[engine]):
        row = check(program(seed), engine)
        shown = f"python -m benchmarks.random_programs --show {seed} --engine {engine}"
        assert row.status in ("right", "torch", "unsure"), f"{row.kind}: {row.reason}\n{shown}"


def test_products_in_sequence_are_drawn_and_right():
    assert sequences.program(11) == sequences.program(11)
    made, threads = sequences.program(7)
    assert threads in (1, 2)
    assert check(made, "aot_eager").status == "right"


FAULTS = [
    ("results", "y = x * 2", "y = x + 1"),
    ("results", "y = x.mT", "y = x.view(3, 2)"),
    ("inputs", "y = x * 2", "x.add_(1); y = x * 2 - 2"),
    ("requires_grad", "y = x * 2", "y = (x * 2).requires_grad_()"),
    ("raises", "y = x * 2", "y = x.view(5)"),
    ("sharing", "y = x.mT", "y = x.mT.clone()"),
    ("exception", "y = x[7]", "y = x.missing"),
    ("does not raise", "y = x[7]", "y = x"),
    ("", "y = x.mT", "y = x.T"),
]


@pytest.mark.parametrize(("kind", "right", "other"), FAULTS)
def test_each_difference_has_its_kind(kind, right, other):
    eager = looked_at(right)
    assert judge.difference(looked_at(right), eager, None) == ("", "")
    found, reason = judge.difference(looked_at(other), eager, None)
    assert (found, not reason) == (kind, not kind)


def test_what_rounding_decides_is_nobodys_fault(monkeypatch):
    unsteady = made(["y = (x * 2**24).frac()"])
    steady = made(["y = x * 2"])
    for each, status in ((unsteady, "unsure"), (steady, "wrong")):
        off = each.ready().function
        monkeypatch.setattr(
            "benchmarks.random_programs.check._compiled",
            lambda function, engine, off=off: lambda x: tuple(y + 0.4 for y in off(x)),
        )
        assert check(each, "onnxrt").status == status
