"""Scripts made of captured graphs run by themselves, and compute the graph."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

import dynamo_ext
from dynamo_ext.analysis.repro_script import repro


class Everything(nn.Module):
    """Weights, buffers, plain tensors, an index, a number, an infinity, a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.embedding = nn.Embedding(5, 4)
        self.register_buffer("scale", torch.ones(4))
        self.plain = torch.ones(4)

    def forward(self, x, number, index):
        y = self.linear(x) * number + self.scale + self.plain + self.embedding(index)
        y[0, 0] = float("inf")
        y = torch.cond(y.sum() > 0, lambda a: a + 1, lambda a: a - 1, (y,))
        return y.split(2, -1), y.double()


def graphs_of(function, *args, **settings):
    torch._dynamo.reset()
    fast = dynamo_ext.optimize("eager", **settings)(function)
    with torch.no_grad():
        fast(*args)
    return fast.report().graphs


CASES = {
    "pointwise": (lambda x: (x.sin() * 2, x > 0), (torch.ones(3, 4),)),
    "half": (lambda x: x.half() @ x.half().T, (torch.ones(3, 4),)),
    "complex": (lambda x: x * 1j, (torch.ones(3, 4, dtype=torch.complex128),)),
    "scalar": (lambda x: x + 1, (torch.tensor(1, dtype=torch.uint8),)),
    "mlp": (nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)), (torch.ones(3, 4),)),
    "lstm": (nn.LSTMCell(4, 8), (torch.ones(3, 4),)),
    "gru": (nn.GRU(4, 8), (torch.ones(3, 2, 4),)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamic", [True, False])
def test_a_script_computes_its_graph(name, dynamic):
    function, args = CASES[name]
    for graph in graphs_of(function, *args, dynamic=dynamic):
        script = repro(graph)
        assert "dynamo_ext" not in script
        names = {"__name__": "repro"}
        exec(compile(script, "analysis/repro_script.py", "exec"), names)
        outputs = names["with_inner_graphs"](names["GraphModule"]())(*names["inputs"])
        assert outputs


def test_a_script_runs_alone(tmp_path):
    args = (torch.ones(3, 4), 7, torch.zeros(3, dtype=torch.long))
    (graph,) = graphs_of(Everything(), *args, dynamic=True)
    path = tmp_path / "g0.py"
    path.write_text(repro(graph, 'cell """4\\'), encoding="utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " ms\n" in done.stdout
    assert done.stdout.count("Tensor (8, ") == 3
