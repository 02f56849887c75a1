"""Every effect of a cell happens once, in its order, wherever the capture of the cell ends."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.corpus.case import PLAIN, Case
from tests.crosses import share
from tests.magics.differences import differences
from tests.magics.shell import run_case

SETUP = f"""{PLAIN}
import io
import random
import numpy as np
import torch

def counting(start):
    while True:
        yield start
        start += 1

def touch(value=None):
    log.append("touched")
    return value

class Thing:
    n = 0

    @property
    def touched(self):
        log.append("property")
        return 1

class Guarded:
    def __enter__(self):
        log.append("in")

    def __exit__(self, *error):
        log.append("out")

x = torch.arange(1.0, 4.0)
t = torch.ones(3)
n = np.ones(3)
shared = torch.ones(3)
view = shared.numpy()
number = np.float64(2)
log, held, count, file = [], {{}}, 0, io.StringIO()
numbers, steps = iter(range(1000)), counting(5)
thing, queue = Thing(), bytearray(b"a")
norm, batch = torch.nn.BatchNorm1d(3), torch.arange(6.0).reshape(2, 3)
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
weight.grad = torch.ones(3)
sizes = [torch.ones(k) for k in range(2, 8)]
"""

EFFECTS = {
    "array": "n += 1",
    "array, out=": "np.add(n, 1, out=n)",
    "array item": "n[0] += 1",
    "array of a tensor": "view *= 2",
    "array made here": "made = x.numpy().copy(); made += 1; n += made",
    "NumPy number": "number *= 2",
    "list": "log.append(len(log))",
    "list of results": "log.append(float(x.sum()))",
    "list in place": "log += map(str, range(2))",
    "bytes": "queue.extend(b'bc')",
    "print": 'print("here")',
    "file": 'file.write("here")',
    "name": "count += 1",
    "dictionary": 'held["a"] = held.get("a", 0) + 1',
    "iterator": "seen = next(numbers)",
    "generator": "seen = next(steps)",
    "random": "drawn = random.random()",
    "NumPy random": "drawn = np.random.rand()",
    "torch random": "drawn = torch.rand(2)",
    "function": "touch()",
    "property": "seen = thing.touched",
    "attribute": "thing.n += 1",
    "tensor": "t += 1",
    "tensor item": "t[0] += 1",
    "tensor, floor": "t //= 0.5",
    "tensor, power": "t **= 1.5",
    "statistics": "seen = norm(batch)",
    "optimizer": "optimizer.step()",
}

CIRCUMSTANCES = {
    "whole": "{e}\ny = x * 2\n{e}",
    "break": "{e}\ny = x * 2\nprint(y.sum().item())\n{e}\nz = y + 1",
    "two breaks": "y = x * 2\n{e}\nprint(y.sum().item())\n{e}\nprint(z.sum().item())\n{e}",
    "break in a function": "y = touch(x * 2)\n{e}\ny = touch(y.sum().item())\n{e}",
    "branch": "{e}\nif x.sum() > 1:\n    {e}\n    y = x + 1\n{e}",
    "loop": "for i in range(3):\n    {e}\n    y = x * i\n{e}",
    "loop with a break": "y = x\nfor i in range(3):\n    {e}\n    y = y * 2\n    print(y.sum().item())\n{e}",
    "loop that ends": "for i in range(9):\n    {e}\n    if (x * i).sum() > 9:\n        break\n    {e}",
    "while": "y = x\nwhile y.sum() < 20:\n    {e}\n    y = y * 2\n{e}",
    "refusal": "{e}\ny = x * 2\ng = np.random.default_rng(0)\nm = np.asarray(y)\n{e}\nw = torch.as_tensor(m)",
    "with": "with Guarded():\n    {e}\n    y = x * 2\n    print(y.sum().item())\n{e}",
    "handled": "try:\n    {e}\n    y = x @ torch.ones(4)\nexcept RuntimeError:\n    {e}\n{e}",
    "handled in a graph": "try:\n    {e}\n    y = x[torch.tensor([7])]\nexcept IndexError:\n    {e}\n{e}",
    "limit": "for k in range(6):\n    y = sizes[k] * k\n    {e}\n    print(y.sum().item())",
    "error while traced": "{e}\ny = x * 2\nz = x @ torch.ones(4)\n{e}",
    "error in a graph": "{e}\ny = x * 2\nz = y[torch.tensor([7])]\n{e}",
    "missing attribute": "{e}\ny = x * 2\n{e}\nz = y.nothing\n{e}",
    "missing name": "{e}\ny = x * 2\n{e}\nz = y + missing_name\n{e}",
    "error of Python's": "{e}\ny = x * 2\n{e}\nlog.extend(map(int, ['1', 'a']))\n{e}",
}


# From torch 2.14 on, `random.random()` is part of a graph, as `random.randint` is: docs/limits.md.
LIMITS = {("random", "handled in a graph"), ("random", "error in a graph")}
if torch.__version__ < "2.14":
    LIMITS = set()


@pytest.fixture(autouse=True)
def few_versions() -> Any:
    import torch._dynamo

    with torch._dynamo.config.patch(recompile_limit=3):
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize("effect", EFFECTS)
def test_an_effect_happens_once(effect: str) -> None:
    look = f"{PLAIN}\nleft = file.getvalue(), next(numbers), next(steps)"
    chosen = share(CIRCUMSTANCES, list(EFFECTS).index(effect), 3)
    names = [name for name in chosen if (effect, name) not in LIMITS]
    cells = [CIRCUMSTANCES[name].format(e=EFFECTS[effect]) for name in names]
    twice = [cell for text in cells for cell in (text, look)]
    case = Case(effect, (SETUP, *twice))
    plain, magic = run_case(case, magic=False), run_case(case, magic=True)
    found = differences(case, plain, magic)
    assert not found, "\n".join([*found, *map(str, enumerate(names))])


def test_numbers_drawn_before_a_graph_that_fails_are_drawn_once() -> None:
    cell = "drawn = random.randint(1, 9)\nz = (x * drawn)[torch.tensor([7])]"
    case = Case("random", (SETUP, cell))
    plain, magic = run_case(case, magic=False), run_case(case, magic=True)
    assert magic.state["python random state"] == plain.state["python random state"]
    assert isinstance(magic.cells[-1].error, IndexError)


BAD = "torch.tensor([7])"


@pytest.mark.parametrize(
    "cell",
    [
        f"x += 1\ny = x * 2\nz = x[{BAD}]",
        f"try:\n    y = x[{BAD}]\nexcept IndexError:\n    log.append(1)\n    y = x * 2\nz = y + 1",
        f"x += 1\ntry:\n    y = x[{BAD}]\nexcept IndexError:\n    log.append(1)\nz = x",
        f"seen = norm(batch)\nnoise = torch.rand(2)\nz = x[{BAD}]",
    ],
)
def test_a_graph_that_fails_is_undone_and_its_statements_run_plainly(cell: str) -> None:
    case = Case("fails", (SETUP, cell, f"{PLAIN}\nlog, x, norm.running_mean"))
    plain, magic = run_case(case, magic=False), run_case(case, magic=True)
    assert sum(graph.operation_count for graph in magic.graphs)
    assert not differences(case, plain, magic)
