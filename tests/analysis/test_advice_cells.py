"""What is advised on cells of ordinary notebooks, all of it."""

from __future__ import annotations

import re

import pytest

from dynamo_ext.analysis.advice import advise
from tests.analysis.told import BACKWARD, NOTHING, Cell, check
from tests.capture.live import live

NET = """net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
x = torch.linspace(-1, 1, 12).reshape(3, 4)
"""
NOISY = """import logging
log = logging.getLogger("noisy")
class Noisy(torch.nn.Module):
    def forward(self, x):
        x = x * 2
        log.info("shape %s", x.shape)
        return torch.relu(x)
net, x = Noisy(), torch.ones(2, 4)
"""
PRINTS = """def score(x):
    y = torch.softmax(x, -1)
    print(y)
    return (y * x).sum()
x = torch.ones(2, 4)
"""
SCALES = """def loss_of(y):
    scale = y.abs().max().item()
    return (y / scale).pow(2).sum()
"""
MEMORY = """class Memory(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen, self.calls = [], 0
    def forward(self, x):
        self.calls += 1
        self.seen.append(x * 2)
        return torch.stack(self.seen).mean(0) * 0.9 ** self.calls
net, x = Memory(), torch.ones(2, 4)
"""
COUNTER = """step = 0
def f(x):
    global step
    step += 1
    return x * step
x = torch.ones(3)
"""
SQUARE = """class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad
x = torch.ones(3, requires_grad=True)
"""
NO_GRAD = "@torch.no_grad()\ndef f(x):\n    return x.sin() + 1\nx = torch.ones(3)"
LISTS = """class Steps(list):
    pass
def runs(steps, x):
    for step in steps:
        x = step(x)
    return x * 2
steps, x = Steps([torch.sin, torch.cos]), torch.ones(3)
"""
SCHEDULE = """opt = torch.optim.SGD(net.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
"""

WORDS = """vocab, ids = {}, []
for word in "the cat sat on the mat".split():
    ids.append(vocab.setdefault(word, len(vocab)))
y = net(torch.arange(40.).reshape(10, 4)[torch.tensor(ids)])
"""
ACCURACY = """y = net(x)
correct = (y.argmax(-1) == torch.tensor([0, 1, 0])).sum().item()
print(f"accuracy {correct / len(y):.2f}")
"""
LOADER = """from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.ones(11, 4)), batch_size=3)
for (b,) in loader:
    y = net(b)
"""
CLIP = """net(x).pow(2).mean().backward()
norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
if norm.item() > 100:
    print("large")
"""
DTYPES = "for d in (torch.float32, torch.float64):\n    y = net.to(d)(x.to(d))"
TRAIN = """for _ in range(4):
    opt.zero_grad()
    net(x).sum().backward()
    opt.step()
    sched.step()
"""
BATCHES = "for n in (3, 2, 1):\n    y = net(x[:n])"
AUTOCAST = "with torch.autocast('cpu', dtype=torch.bfloat16):\n    y = net(x)"
METRIC = "import numpy as np\ny = net(x)\nscore = np.mean(y.detach().numpy() > 0)"

LR = ("recompile", "the optimizer's `self.param_groups[0]['lr']` (0.1, 0.05, 0.025", "opt.step = torch.compiler.disable(opt.step)")  # fmt: skip

CELLS = [
    Cell("words to numbers", NET, WORDS),
    Cell("accuracy at the end", NET, ACCURACY),
    Cell("metric at the end", NET, METRIC),
    Cell("batches", NET, BATCHES),
    Cell("autocast", NET, AUTOCAST),
    Cell("list and number of a module", MEMORY, "for _ in range(10):\n    y = net(x)"),
    Cell("counter", COUNTER, "for _ in range(6):\n    y = f(x)"),
    Cell("own function's gradient", SQUARE, "y = Square.apply(x).sum()\ny.backward()"),
    Cell("no_grad", NO_GRAD, "y = f(x)"),
    Cell("clip", NET, CLIP, (*NOTHING, BACKWARD)),
    Cell("item in a loss", NET + SCALES, "loss = loss_of(net(x))", (("break", "`.item()` reads a value", "Keep it a tensor"),)),
    Cell("logs", NOISY, "y = net(x)", (("break", "called at line 2, splits the graph because it logs", "ignore_logging_functions"),)),
    Cell("prints a tensor", PRINTS, "s = score(x)", (("break", "because it prints", "Print after"),)),
    Cell("list of a class", LISTS, "y = runs(steps, x)", (("uncaptured", "iterates over an object of a class", "Give a list in its place"),)),
    Cell("loader", NET, LOADER, (("break", "Line 3 splits the graph because it builds a `TensorDataset`", "Build it before"), ("recompile", "the batch size of `b` (3, 2)", "mark_dynamic(b, 0)"))),
    Cell("converts", NET, DTYPES, (("break", "Line 3 splits the graph because it converts a module", "Convert it before"), ("recompile", "the value of `d` (torch.float32, torch.float64)", "set it once, before"))),
    Cell("learning rate", NET + SCHEDULE, TRAIN, (LR, BACKWARD)),
    Cell("optimizer left to eager", f"{NET}{SCHEDULE}opt.step = torch.compiler.disable(opt.step)", TRAIN),
    Cell("no engine", NET, "y = net(x)", (("unavailable", "tensorrt is not available here: torch_tensorrt is not installed", "pip install"),), "-b tensorrt"),
]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_what_is_advised_on_a_cell(cell: Cell) -> None:
    check(cell)


@pytest.mark.parametrize(
    ("setup", "text", "step"),
    [(NET, LOADER, r"(%%dynamo .*?--dynamic)"), (NET + SCHEDULE, TRAIN, r"to eager: (.*?\))\.")],
    ids=["size", "optimizer"],
)
def test_a_step_that_is_code_is_followed_as_it_stands(setup: str, text: str, step: str) -> None:
    with live(setup) as cells:
        told = " ".join(each.step for each in advise(cells.report(text)))
        [code] = re.findall(step, told)
        magic, _, line = code.partition("%%dynamo ")
        cells.well(f"%dynamo reset\n{magic}")
        assert not cells.report(text, line or "-b eager").recompiles
