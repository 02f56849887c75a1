"""What torch before 2.13 captures wrong by itself is as in plain Python on every torch."""

from __future__ import annotations

import pytest
import torch

import dynamo_ext
from tests.capture.live import live

SETUP = """\
class Counted:
    made = 0
    calls = []
    def __init__(self):
        Counted.made += 1
    def call(self):
        self.calls.append('in')
class Named(dict):
    pass
net = torch.nn.Identity()
items, named, x = [1], Named(a=1), torch.ones(2)
kept, kept_named = items, named
"""


COUNT = """\
def f(x):
    Counted.made += 1
    return x * Counted.made
y = [f(x)[0].item() for _ in range(3)]
"""
CALL = """\
def f(x):
    Counted().call()
    return x + len(Counted.calls)
y = [f(x)[0].item() for _ in range(3)]
"""
DOUBLE = "z = x * 2\nitems *= 2\ny = len(items), items is kept"
UNITE = "z = x * 2\nnamed |= {'b': 2}\ny = type(named).__name__, named is kept_named"
FORWARD = "net.forward = lambda x: x * 4\ny = net(x)[0].item()"

ITERATE = "z = x * 2\nit = iter({kind})\ny = type(it).__name__"

KEEP = "def f(x, seen=[]):\n    seen.append(1)\n    return x * len(seen)\nf(x)\ny = f(x)[0].item()"

ANNOTATE = """\
def outer(x):
    def inner(a: int, b: float): return a
    return x * 2, inner
y = [*outer(x)[1].__annotations__]
"""


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        # Without them in pairs, annotations are names of arguments, too.
        (ANNOTATE, "['a', 'b'] 0"),
        # Without a guard on it, a default is what it was when it was traced.
        (KEEP, "2.0 0"),
        # Without an end of the graph, the name gets an iterator over a tuple.
        (ITERATE.format(kind="{1: 2}"), "dict_keyiterator 0"),
        (ITERATE.format(kind="{1: 2}.values()"), "dict_valueiterator 0"),
        (ITERATE.format(kind="{1: 2}.items()"), "dict_itemiterator 0"),
        (ITERATE.format(kind="{1, 2}"), "set_iterator 0"),
        # Without a guard on what a class holds, compiled code keeps what was there first.
        (COUNT, "[1.0, 2.0, 3.0] 3"),
        (CALL, "[2.0, 3.0, 4.0] 3"),
        # Without an end of the graph, the name gets another object.
        (DOUBLE, "(2, True) 0"),
        (UNITE, "('Named', True) 0"),
        # Without an end of the graph, the class's `forward` runs.
        (FORWARD, "4.0 0"),
    ],
)
def test_it_is_as_without(cell: str, shown: str) -> None:
    with live(SETUP) as cells:
        report = cells.report(cell)
        assert f"{cells.names['y']} {cells.names['Counted'].made}" == shown
        assert report.graphs


def test_an_iterator_that_a_dict_holds_outlives_the_end_of_a_graph() -> None:
    def steps(x: torch.Tensor) -> torch.Tensor:
        held = {"steps": iter([1, 2])}.pop("steps")
        y = x * next(held)
        print("next")  # noqa: T201
        return y * next(held)

    fast = dynamo_ext.optimize("eager")(steps)
    assert fast(torch.ones(1)).item() == 2
    assert len(fast.report().graphs) == 2


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ("first, *rest", [1, 2, 3]),
        ("*rest, last", [0, 1, 2]),
        ("first, *rest, last", [1, 2]),
        ("a, b, *rest, c, d", []),
    ],
)
def test_the_rest_of_an_assignment_is_a_list_that_can_grow(
    targets: str, expected: list[int]
) -> None:
    with live("x = torch.ones(2)", "def f(v):\n    _, *more = v\n    return more") as cells:
        report = cells.report(
            f"y = x * 2\n{targets} = (0, 1, 2, 3)\nrest.append(9)\nz = y + rest[-1]\ntold = f([1, 2])"
        )
        assert cells.names["rest"] == [*expected, 9]
        assert cells.names["told"] == [2]
        assert report.fallbacks == ()


def test_the_rest_of_tensors_is_a_list() -> None:
    with live("x = torch.ones(3, 2)") as cells:
        cells.report("first, *rest = x * 2\nrest.pop()")
        assert type(cells.names["rest"]) is list
        assert len(cells.names["rest"]) == 1
