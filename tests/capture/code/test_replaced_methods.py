"""A method that was replaced is the one that runs."""

from __future__ import annotations

import pytest

from tests.capture.live import Live, counting_compiles

NOTEBOOK = """
x = -torch.ones(2)
class Net(torch.nn.Module):
    def forward(self, x):
        return x.relu()

class Called:
    def __call__(self, x):
        return x + 1

    @staticmethod
    def shifted(x):
        return x - 1

class Base:
    def scaled(self, x):
        return x * 2

class Derived(Base):
    pass

net, called, derived = Net(), Called(), Derived()

def helper(x):
    return net(x) + called(x)
"""
CELL = "y = torch.stack([net(x), called(x), Called.shifted(x), derived.scaled(x), helper(x)])"


@pytest.mark.parametrize(
    "change",
    [
        "Net.forward = lambda self, x: x * 100",
        "Called.__call__ = lambda self, x: x + 50",
        "Called.shifted = staticmethod(lambda x: x - 70)",
        "Derived.scaled = lambda self, x: x * 7",
        "Base.scaled = lambda self, x: x * 9",
    ],
)
def test_a_replaced_method_is_compiled_anew(cells: Live, change: str) -> None:
    for text in ("pass", change):
        cells.well(text)
        cells.report(CELL, cell_id="a")
        found = cells.names["y"].clone()
        cells.well(CELL)
        assert found.tolist() == cells.names["y"].tolist()


def test_what_is_as_it_was_stays_compiled(cells: Live) -> None:
    cells.report(CELL, cell_id="a")
    cells.well("class Other(Net):\n    def forward(self, x):\n        return x")
    with counting_compiles() as started:
        cells.report(CELL, cell_id="a")
    assert not started
