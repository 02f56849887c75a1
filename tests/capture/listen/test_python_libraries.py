"""Functions of libraries that run in Python, and what they call."""

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.capture.cells import runner
from tests.auto.conftest import Company
from tests.capture.live import Live

SOURCE = """
def generate(module, x, chosen=None):
    names(sys._getframe())
    for _ in range(3):
        x = shifted(x)
        x = module(x)
        if chosen is not None:
            x = chosen(x)
    return x

def names(frame):
    return frame.f_locals

def shifted(x):
    return (x + 1) * 2 - x
"""


def library(source: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    made: Any = types.ModuleType("somewhere")
    made.sys = sys
    exec(compile(source, "/lib/site-packages/somewhere.py", "exec"), vars(made))
    monkeypatch.setitem(sys.modules, "somewhere", made)
    return made


@pytest.fixture(name="generate")
def _generate(monkeypatch: pytest.MonkeyPatch) -> Callable[..., torch.Tensor]:
    return library(SOURCE, monkeypatch).generate  # type: ignore[no-any-return]


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1


def test_modules_that_it_calls_are_captured_and_its_own_functions_are_not(
    generate: Callable[..., torch.Tensor],
) -> None:
    net, x = Net(), torch.rand(3)
    fast = dynamo_ext.optimize("eager")(generate)
    assert torch.equal(fast(net, x), generate(net, x))
    report = fast.report()
    assert [frame.name for frame in report.frames if frame.graphs] == ["forward"]
    assert [graph.calls for graph in report.graphs] == [3]
    assert any("but for modules" in each.message for each in report.fallbacks)
    assert torch.equal(fast(net, x), generate(net, x))
    assert [graph.calls for graph in fast.report().graphs] == [6]


def test_functions_of_the_user_that_it_calls_are_captured(
    generate: Callable[..., torch.Tensor],
) -> None:
    def chosen(x: torch.Tensor) -> torch.Tensor:
        return x.cos() * 2

    fast = dynamo_ext.optimize("eager")(generate)
    fast(Net(), torch.rand(3), chosen)
    assert {f.name for f in fast.report().frames if f.graphs} == {"forward", "chosen"}


BREAKS = """
def search(module, x):
    x = prepared(x)
    print("NAME")
    x = module(x)
    print("NAME")
    return prepared(x)

def prepared(x):
    return x
"""


@pytest.mark.parametrize(("rest", "captured"), [("* 2 + 1", "forward"), (".sin()" * 9, "search")])
def test_a_function_that_breaks_twice_is_python_where_its_graphs_are_small(
    rest: str, captured: str, cells: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "MachineLoad", Company)
    # Code is known by what is in it.
    made = library(BREAKS.rstrip().replace("NAME", captured) + rest, monkeypatch)
    cells.names.update(somewhere=made, net=Net(), x=torch.rand(3))
    cell = "y = somewhere.search(net, x)"
    cells.report(cell)
    for mode in ("", "--capture all"):
        again = cells.report(cell, f"-b eager {mode}")
        assert {f.name for f in again.frames if f.graphs} == {"search" if mode else captured}
    cells.well("%dynamo reset")
    report = cells.report(cell)
    assert captured in {f.name for f in report.frames if f.graphs}
    told = any("more than one graph break" in each.message for each in report.fallbacks)
    assert told == (captured == "forward")


JOINED = "y = x + 1\nprint(''.join([letters[i] for i in x.tolist()]))"
LATER = "y = x + 1\nn = [letters[i] for i in x.tolist()]\nprint(n)\nz = y * 2"


def compiles(cells: Live, text: str, line: str) -> list[bool]:
    """Whether each of five runs, which have other numbers, compiles."""
    cells.well("letters = 'abcdefghij'")
    found = []
    for run in range(5):
        cells.well(f"x = torch.arange({run}, {run} + 4)")
        found.append(cells.report(text, line).compile_seconds > 0)
    return found


@pytest.mark.parametrize(("line", "later"), [("-b eager", False), ("-b eager --capture all", True)])
def test_a_part_without_a_graph_is_compiled_twice(cells: Live, line: str, *, later: bool) -> None:
    assert compiles(cells, JOINED, line) == [True, True, later, later, later]
    assert cells.well(f"%%dynamo {line} --quiet\n{JOINED}").out == "efgh\n"
    compiles(cells, LATER, line)
    assert sum(graph.calls for graph in cells.report(LATER, line).graphs) == 2
