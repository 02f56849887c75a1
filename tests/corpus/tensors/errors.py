"""Tensor code that fails half-way: what was assigned and changed before stays."""

from __future__ import annotations

from tests.corpus.case import Case, case
from tests.corpus.tensors.values import TORCH, X

CASES: list[Case] = [
    case(
        "shape mismatch",
        X,
        "y = x + 1\nz = y + torch.ones(4)\nw = z",
        "y, 'z' in globals(), 'w' in globals()",
        raises="RuntimeError",
    ),
    case(
        "matrix multiply mismatch", X, "a = x * 2\na = a + 1\nb = a @ a", "a", raises="RuntimeError"
    ),
    case(
        "random numbers before an error",
        TORCH,
        "torch.manual_seed(0)\ny = F.embedding(torch.tensor([11]), torch.randn(10, 3))",
        "torch.rand(2)",
        "w = torch.rand(3, 4)\nv = F.dropout(w, 0.5) @ torch.rand(3)",
        "torch.rand(2)",
        raises="IndexError RuntimeError",
    ),
    case("index out of range", X, "y = x + 1\nz = y[5]", "y", raises="IndexError"),
    case(
        "embedding out of range",
        TORCH + "\nw = torch.ones(3, 2)",
        "i = torch.tensor([0, 7])\nb = w * 2\ne = F.embedding(i, b)\nafter = 1",
        "b, 'e' in globals(), 'after' in globals()",
        raises="IndexError",
    ),
    case(
        "gather out of range",
        X,
        "i = torch.tensor([[0, 9]])\ny = x * 3\ng = x.gather(1, i)",
        "y",
        raises="RuntimeError",
    ),
    case(
        "error at run time after in place",
        X,
        "x.add_(1)\nlog = ['a']\ni = torch.tensor([9])\nt = torch.index_select(x, 0, i)\nlog.append('b')",
        "x, log",
        raises="IndexError",
    ),
    case(
        "error in a loop's third turn",
        X,
        "done = []\nfor i in range(5):\n    row = x[:, i]\n    done.append(row.sum())",
        "i, row, done",
        raises="IndexError",
    ),
    case(
        "error in a function over tensors",
        X + "\n\ndef f(t):\n    u = t + 1\n    return u.view(7)",
        "a = x * 2\nb = f(a)",
        "a",
        raises="RuntimeError",
    ),
    case(
        "error in a tensor function of the cell",
        X,
        "def f(t):\n    return t @ t\n\na = x + 1\nb = f(a)\nc = 1",
        "a, 'b' in globals()",
        raises="RuntimeError",
    ),
    case(
        "python error between tensors",
        X,
        "y = x + 1\nd = {'a': y}\nz = d['b'] + 1\nw = z",
        "y, d",
        raises="KeyError",
    ),
    case(
        "error of one's own on data",
        X,
        "y = x - 10\nif y.sum() < 0:\n    raise ValueError(f'negative: {y.sum().item()}')\nz = y",
        "y, 'z' in globals()",
        raises="ValueError",
    ),
    case(
        "assert on data",
        X,
        "y = x * 2\nassert y.sum() == 0, 'not zero'\nz = 1",
        "y",
        raises="AssertionError",
    ),
    case(
        "missing name between tensors", X, "y = x + 1\nz = y * nope\nw = 2", "y", raises="NameError"
    ),
    case("item of many", X, "y = x + 1\nv = y.item()", "y", raises="RuntimeError"),
    case(
        "attribute error on a tensor",
        X,
        "y = x + 1\ny.nothing_like_it()",
        "y",
        raises="AttributeError",
    ),
    case(
        "in place on a leaf that needs grad",
        TORCH,
        "w = torch.ones(2, requires_grad=True)\na = w * 2\nw += 1",
        "a, w",
        raises="RuntimeError",
    ),
    case(
        "within a mode",
        TORCH,
        "bad = torch.tensor([9])\nx = torch.ones(4, 4)",
        "with torch.no_grad():\n    y = x @ x\n    z = torch.embedding(y, bad)",
        "torch.is_grad_enabled(), y.sum(), (x @ x).requires_grad",
        raises="IndexError",
    ),
    case(
        "within autocast in inference mode",
        TORCH,
        "bad = torch.tensor([9])\nx = torch.ones(4, 4)",
        "with torch.inference_mode():\n    with torch.autocast('cpu', torch.bfloat16):\n"
        "        y = x @ x\n        z = torch.embedding(y, bad)",
        "# plain\ntorch.is_inference_mode_enabled(), torch.is_autocast_enabled('cpu'), y.dtype",
        raises="IndexError",
    ),
    case(
        "within one kernel of attention",
        TORCH,
        "from torch.nn.attention import SDPBackend, sdpa_kernel\nbad = torch.tensor([9])\n"
        "x = torch.ones(4, 4)",
        "with sdpa_kernel(SDPBackend.MATH):\n    y = x @ x\n    z = torch.embedding(y, bad)",
        "torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()",
        raises="IndexError",
    ),
    case(
        "handled within a mode",
        TORCH,
        "bad = torch.tensor([9])\nx = torch.ones(4, 4, requires_grad=True)",
        "try:\n    with torch.no_grad():\n        y = x @ x\n        z = torch.embedding(y, bad)\n"
        "except IndexError:\n    y = x * 2\ny.requires_grad, torch.is_grad_enabled()",
    ),
]
