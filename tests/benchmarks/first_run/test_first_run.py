"""First and later runs: what is compared, and the namespaces that keep runs apart."""

from __future__ import annotations

import torch

from benchmarks.first_run.namespace import Namespace
from benchmarks.first_run.same import Judge, bound, values
from tests.magics.shell import notebook


def test_values_of_two_namespaces_are_compared_whatever_they_are() -> None:
    judge = Judge(None, "", "")
    plain = {"a": [torch.ones(3), 1.0], "n": 2, "s": "x", "d": {(1, 2): 0.5}}
    same = {"a": [torch.ones(3) + 1e-6, 1.0 + 1e-6], "n": 2, "s": "x", "d": {(1, 2): 0.5}}
    assert judge.difference(list(plain), plain, same) == ""
    for name, other in {
        "n": 3, "s": "y", "d": {(1, 3): 0.5}, "a": [torch.ones(3, dtype=torch.float64), 1.0],
    }.items():  # fmt: skip
        assert judge.difference([name], plain, {name: other}).startswith(f"{name}: ")
    assert judge.difference(["n"], plain, {}) == "n: it is not bound."
    assert bound({"a": 1}, {"a": 1, "b": 2, "_c": 3}) == ["b"]


def test_a_cell_in_float64_says_which_result_is_farther_off() -> None:
    setup = "import torch\ntorch.manual_seed(0)\nw = torch.ones(3, requires_grad=True)"
    setup += "\nopt = torch.optim.SGD([w], 0.1)"
    cell = "loss = (w * 1.1).pow(2).sum(); loss.backward(); opt.step(); y = w.detach() * 1"
    with notebook() as shell:
        judge = Judge(shell, setup, cell)
        plain = Namespace(shell)
        plain.must_run(setup)
        plain.must_run(cell)
        exact = judge._wide["y"]
        assert exact.dtype is torch.float64
        assert torch.get_default_dtype() is torch.float32
        assert torch.allclose(plain.names["y"].double(), exact)
        off = {"y": exact.float()}
        noisy = {"y": exact.float() * 1.01}
        assert judge.difference(["y"], noisy, off) == ""
        assert "values are off" in judge.difference(["y"], off, noisy)
    assert values([1.0], torch.float64)[-1].dtype is torch.float64


def test_namespaces_do_not_see_one_another() -> None:
    with notebook() as shell:
        one, two = Namespace(shell), Namespace(shell)
        for space in (one, two):
            space.must_run("import torch; torch.manual_seed(0)\ndef f(): return x\nx = 1")
        one.must_run("x = 2; y = torch.rand(1); seen = f()")
        printed = two.must_run("print(f()); z = torch.rand(1)").printed
        assert (one.names["seen"], printed) == (2, "1\n")
        assert torch.equal(one.names["y"], two.names["z"])
        assert "y" not in two.names
        assert two.run("1 / 0").raised == "ZeroDivisionError: division by zero"
