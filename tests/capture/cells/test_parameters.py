"""The size of the models that a cell reads."""

import pytest
import torch

from dynamo_ext.capture.cells import parameters
from dynamo_ext.capture.cells.program import build_program

NET = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2, bias=False))
SIZE = 3 * 4 + 4 + 4 * 2


class Holder:
    def __init__(self) -> None:
        self.net = NET


@pytest.mark.parametrize(
    ("cell", "size"),
    [("net(1)", SIZE), ("through(1)", SIZE), ("[through(n) for n in x]", SIZE), ("h.fit()", SIZE),
     ("net = None\nnet(1)", 0), ("y = 1", 0), ("other.fit()", 0)],
)  # fmt: skip
def test_modules_that_a_cell_reads_and_does_not_bind_count(cell: str, size: int) -> None:
    names = {"net": NET, "same": NET, "h": Holder(), "other": torch.nn.LazyLinear(3), "x": []}
    exec("def through(x): return deeper(x)\ndef deeper(x): return net(x)", names)
    assert parameters.count(build_program(cell, "cell.py", compile), names) == size
