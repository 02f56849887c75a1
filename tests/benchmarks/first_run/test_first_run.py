"""First and later runs: which of two results is farther from one in float64."""

from __future__ import annotations

import torch

from benchmarks.first_run.namespace import Namespace
from benchmarks.first_run.same import Judge, values
from tests.magics.shell import notebook


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
