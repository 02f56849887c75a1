"""The size of the models that a cell reads."""

from __future__ import annotations

import pytest
import torch

from dynamo_ext.capture.cells import parameters
from dynamo_ext.capture.cells.program import build_program


def count(cell: str, **names: object) -> int:
    namespace = dict(names)
    exec("def through(x): return deeper(x)\ndef deeper(x): return net(x)", namespace)
    return parameters.count(build_program(cell, "cell.py", compile), namespace)


NET = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2, bias=False))


class Holder:
    model = None

    def __init__(self) -> None:
        self.net = NET


@pytest.mark.parametrize(
    "cell", ["net(1)", "through(1)", "[through(n) for n in x]", "holder.fit()"]
)
def test_modules_that_a_cell_reads_count(cell: str) -> None:
    assert count(cell, net=NET, holder=Holder(), same=NET, x=[]) == 3 * 4 + 4 + 4 * 2


@pytest.mark.parametrize("cell", ["net = None\nnet(1)", "y = 1", "other.fit()"])
def test_others_do_not(cell: str) -> None:
    lazy = torch.nn.LazyLinear(3)
    assert count(cell, net=NET, other=lazy) == 0
