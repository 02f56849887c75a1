"""What a cell made goes when the cell runs anew, or is edited: models, engines and graphs."""

from __future__ import annotations

import gc
import weakref
from collections import Counter

import pytest
import torch

from benchmarks.backends import BACKENDS
from dynamo_ext.backends import registry
from tests.capture.live import Live
from tests.crosses import crossed

NOTEBOOK = f"""
from torch import nn
class Net(nn.Sequential):
    pass
def make():
    return Net({", ".join(["nn.Linear(8, 8), nn.GELU()"] * 3)})
x = torch.ones(2, 8)
"""
USES = (
    "with torch.no_grad():\n    for _ in range(3):\n        y = model(x) * {0}\n"
    "step = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "for _ in range(2):\n"
    "    loss = model(x).pow(2).mean() * {0}\n"
    "    loss.backward()\n"
    "    step.step()\n"
    "    step.zero_grad()"
)

CHANGES = ("edited", "run anew")
"""Whether the text of the cell changes from run to run."""


pytestmark = pytest.mark.usefixtures("older_objects_frozen")


def kept() -> Counter[str]:
    """How many objects there are of those that compiling a graph makes.

    What a backend answered for an operation is kept (``answers``): it holds no graph.
    """
    gc.collect()
    found: Counter[str] = Counter()
    for kind, count in Counter(map(type, gc.get_objects())).items():
        if str(kind.__module__).startswith("dynamo_ext.backends"):
            found[kind.__qualname__] += count
        elif issubclass(kind, torch.fx.GraphModule):
            found["GraphModule"] += count
    del found["Support"]
    # OpenVINO keeps what it was once lent, which is a note of an address and holds no memory.
    for kind in [kind for kind in found if kind.startswith("c_byte_Array")]:
        del found[kind]
    return found


@pytest.mark.parametrize(("backend", "change"), crossed(BACKENDS, CHANGES))
def test_a_cell_that_makes_a_model_keeps_the_last_one(
    cells: Live, backend: str, change: str
) -> None:
    if not registry.probe(registry.get(backend)).available:
        pytest.skip(f"{backend} cannot run here.")
    models, counts = [], []
    for number in range(1, 5):
        text = USES.format(number if change == "edited" else 1)
        cells.report(f"model = make()\n{text}", f"-b {backend}", "a")
        models.append([weakref.ref(each) for each in cells.names["model"].parameters()])
        counts.append(kept())
    alive = [any(each() is not None for each in of) for of in models]
    assert alive == [False] * 3 + [True]
    assert counts[-1] <= counts[2]
