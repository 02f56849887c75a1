"""Functions with a graph break in a loop over modules: Python, whose containers are captured."""

from __future__ import annotations

from tests.corpus.case import Case, case

SETUP = """\
# plain
import torch
from torch import nn
torch.manual_seed(0)
x = torch.randn(3, 4)
layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4))
named = nn.ModuleDict({name: nn.Linear(4, 4) for name in "abc"})
layers.requires_grad_(False), named.requires_grad_(False)
"""


def loop(name: str, body: str, call: str = "f(x)", **facts: object) -> Case:
    """A function that loops, called twice: the second time nothing is new."""
    return case(name, SETUP, f"def f(x):\n{_indented(body)}", call, call, **facts)  # type: ignore[arg-type]


def _indented(body: str) -> str:
    return "\n".join(f"    {line}" for line in body.strip("\n").splitlines())


CASES: list[Case] = [
    loop(
        "a number read at each layer",
        """
sums = []
for layer in layers:
    x = layer(x)
    sums.append(round(x.sum().item(), 3))
return sums, x.shape
""",
        graphs=2,
    ),
    loop(
        "an early exit from layers",
        """
for number, layer in enumerate(layers, 1):
    x = layer(x)
    if x.abs().max() < 0.9:
        break
    x = x * 1.5
else:
    number = 'all'
return number, round(float(x.sum()), 3)
""",
    ),
    loop(
        "a return from among layers",
        """
for layer, scale in zip(layers, [1, 2, 3, 4], strict=True):
    x = layer(x) * scale
    if float(x.abs().sum()) > 8:
        return scale, x.shape
return 'none'
""",
    ),
    loop(
        "continue, and what is left of the name",
        """
kept = []
for layer in layers:
    y = layer(x)
    if y[0, 0].item() > 0:
        continue
    kept.append(layers[0] is layer)
    x = y
return kept, type(layer).__name__, len(layer)
""",
    ),
    loop(
        "modules by name",
        """
seen = {}
for name, layer in named.items():
    x = layer(x)
    print(name, tuple(x.shape))
    seen[name] = round(x.mean().item(), 3)
for name in named:
    print(name)
return seen
""",
    ),
    loop(
        "layers within layers",
        """
for outer in layers[:2]:
    for inner in outer:
        x = inner(x)
        print(round(x.sum().item(), 3))
return x.shape
""",
    ),
    loop(
        "layers, and then a long loop over numbers",
        """
for layer in layers:
    x = layer(x)
    print(end='.')
for step in range(20):
    x = x * 0.9
    print(end=str(step))
return round(x.sum().item(), 5)
""",
    ),
    loop(
        "more layers than there are versions",
        """
deep = nn.ModuleList(nn.Linear(4, 4, bias=False) for _ in range(12))
for layer in deep:
    nn.init.eye_(layer.weight)
for layer in deep:
    x = layer(x)
    print(end='.')
return round(x.sum().item(), 3)
""",
    ),
    loop(
        "layers that the loop changes",
        """
for layer in layers:
    x = layer(x)
    print(len(layers), x[0, 0].item() > 2)
    with torch.no_grad():
        layer[0].weight.mul_(0.5)
return round(x.sum().item(), 3)
""",
    ),
    loop(
        "layers that take turns in a generator",
        """
def chosen():
    for layer in layers:
        print('next')
        yield layer
for layer in chosen():
    x = layer(x)
    print(round(x.sum().item(), 3))
return x.shape
""",
    ),
    case(
        "an error in the third layer",
        SETUP,
        "layers[2] = nn.Linear(5, 4)\n"
        "def f(x):\n    for layer in layers:\n        x = layer(x)\n        print(x.shape)\n"
        "    return x",
        "f(x)",
        "f(x)",
        raises="RuntimeError RuntimeError",
        graphs=2,
    ),
    case(
        "training through layers that print",
        SETUP,
        "layers.requires_grad_()\nopt = torch.optim.SGD(layers.parameters(), lr=0.1)\n"
        "def f(x):\n    for layer in layers:\n        x = layer(x)\n        print(x.requires_grad)\n"
        "    return x.square().mean()",
        "losses = []\nfor step in range(3):\n    opt.zero_grad()\n    loss = f(x)\n"
        "    loss.backward()\n    opt.step()\n    losses.append(round(loss.item(), 4))\nlosses",
        "[round(p.sum().item(), 3) for p in layers.parameters()]",
    ),
    case(
        "a generator of layers as an argument",
        SETUP,
        "def f(x, some):\n    for layer in some:\n        x = layer(x)\n        print(end='.')\n"
        "    return x.shape",
        "f(x, iter(layers)), f(x, (m for m in layers)), f(x, reversed(layers))",
        "some = iter(layers)\nnext(some)\nf(x, some), list(some)",
    ),
    case(
        "a tagger",
        SETUP,
        "tagger = nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True).eval()",
        "with torch.no_grad():\n    out, (h, c) = tagger(x[None])\n"
        "out.shape, round(out.sum().item(), 4), round(h.sum().item(), 4), round(c.sum().item(), 4)",
        "out, _ = tagger(x[None])\nout.requires_grad",
        graphs=4,
    ),
]
