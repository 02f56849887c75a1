"""Tensor code at the top of a cell: values, views, mutation, and how many graphs it makes."""

from __future__ import annotations

from tests.corpus.case import Case, case

TORCH = "# plain\nimport torch\nimport torch.nn.functional as F"
X = TORCH + "\nx = torch.arange(6.0).reshape(2, 3)"

CASES: list[Case] = [
    case("one statement", X, "y = x + 1", graphs=1, operations=1),
    case("statement and display", X, "y = x * 2\ny.sum()", graphs=1, operations=2),
    case(
        "loop and comprehension",
        X,
        """
         parts = [x * i for i in range(4)]
         total = torch.zeros(2, 3)
         for p in parts:
             total = total + p
         mean = total.mean()
         """,
        "# plain\ntotal, mean, p is parts[-1]",
        graphs=1,
        operations=4 + 1 + 4 + 1 + 0,
    ),
    case(
        "import in the cell",
        "import torch\nx = torch.ones(3)\ny = x.cos() + x.sin()\ny",
        graphs=1,
        operations=4,
    ),
    case(
        "tensor over cells",
        TORCH,
        "a = torch.ones(2, 2)",
        "b = a @ a\nc = b.relu()\nc",
        "d = c - b\nd",
        graphs=3,
        operations=4,
    ),
    case("matrix multiply operator", X, "y = x @ x.T\ny @= y\ny", graphs=1, operations=3),
    case(
        "rebinding a tensor",
        X,
        "old = x\nx = x + 1\nx = x * 2\nold is x",
        "# plain\nx, old",
        graphs=1,
        operations=2,
    ),
    case(
        "augmented tensor keeps its identity",
        X,
        "alias = x\nx += 1\nx *= 2\nalias is x, alias",
        graphs=1,
        operations=2,
    ),
    case("in place", X, "r = x.add_(1)\nr is x, x.mul_(2)", graphs=1, operations=2),
    case(
        "in place on a view",
        X,
        "v = x[0]\nv.add_(10)\nw = x.view(-1)\nw[5] = -1\nx",
        "# plain\nv, w, v._base is x",
        graphs=1,
    ),
    case(
        "views share memory",
        X,
        "t = x.T\nr = x.reshape(-1)\nc = x.T.contiguous()\ns = x[:, ::2]\ne = x[0].expand(4, 3)",
        "# plain\nt.stride(), c.stride(), s.stride(), e.stride()",
        graphs=1,
    ),
    case(
        "view made in one cell, changed in another",
        X,
        "v = x[1]",
        "v.zero_()\nx.add_(1)",
        "# plain\nx, v",
        graphs=2,
        operations=3,
    ),
    case("data assignment", X, "y = torch.ones(2)\ny.data = x[0]\ny.data.mul_(3)\ny", "x"),
    case("item assignment", X, "x[0, 1] = 50\nx[x > 3] = 0\nx[:, 2] += 7\nx", graphs=1),
    case(
        "slices",
        X,
        "a, b = x[0], x[1]\nc = x[..., -1]\nd = x[[1, 0]]\ne = x[:, None]\na + b, c, d, e.shape",
        graphs=1,
    ),
    case(
        "unpacking tensors",
        X,
        "a, b = x\n(m, i), n = x.max(dim=1), x.numel()\na, b, m, i, n",
        graphs=1,
    ),
    case(
        "unbind, split, stack",
        X,
        "p = x.unbind(1)\nq = torch.stack(p[::-1])\nr = torch.cat([x.split(1)[0], q[:1, :1].expand(1, 3)])\nr",
        graphs=1,
    ),
    case("named results", X, "m = x.max(dim=0)\nm.values, m.indices, type(m).__name__", graphs=1),
    case("svd result", X, "s = torch.linalg.svdvals(x)\ns.shape", graphs=1, operations=1),
    case(
        "data-dependent branch",
        X,
        "if x.sum() > 0:\n    y = x + 1\nelse:\n    y = x - 1\ny",
        graphs=2,
        operations=3,
    ),
    case("data-dependent while", X, "n = 0\nwhile x.sum() < 100:\n    x = x * 2\n    n += 1\nn, x"),
    case("item", X, "s = x.sum().item()\nt = s + 1\nu = float(x[0, 1]) + int(x[1, 2])\ns, t, u"),
    case("tolist", X, "l = x.tolist()\nl.append([1])\nl"),
    case("print a tensor", X, "y = x + 1\nprint(y)\nz = y * 2\nz", graphs=2, operations=2),
    case("print in a loop", X, "for i in range(3):\n    x = x + i\n    print(i, x.sum())\nx"),
    case("f-string of a tensor", X, "msg = f'{x.sum():.2f} {x.shape}'\nmsg"),
    case(
        "shape and metadata",
        X,
        "r, c = x.shape\nn = x.ndim * x.numel()\nd = x.dtype, x.device, x.stride(), x.is_contiguous()\ny = x.new_zeros(c, r)\ny",
        graphs=1,
        operations=1,
    ),
    case(
        "shape as values",
        X,
        "s = x.shape\nt = x.size(0)\nu = [*s, t]\ns, type(s).__name__, type(t).__name__, u",
    ),
    case(
        "dtypes",
        TORCH,
        "i = torch.tensor([1, 2, 3])\nf = i / 2\nb = i > 1\nh = f.half()\ng = i.to(torch.bfloat16) * 1.5\nc = f + 1j\ni, f, b, h, g, c",
        graphs=1,
    ),
    case(
        "zero-dim and empty",
        TORCH,
        "z = torch.tensor(3.0)\ne = torch.empty(0, 4)\ns = e.sum() + z\nt = torch.cat([e, torch.ones(1, 4)])\nz, e, s, t",
        graphs=1,
    ),
    case(
        "telling torch how to compile",
        X,
        "a = x * 2\ntorch._dynamo.mark_dynamic(a, 0)\nb = a.sin()\ntorch._dynamo.mark_static(b)\nc = b + 1\na, c",
        graphs=2,
        operations=3,
    ),
    case(
        "telling torch not to compile",
        X,
        "a = x * 2\nwith torch.compiler.set_stance('force_eager'):\n    b = a.sin()\nc = b + 1\na, b, c",
        graphs=2,
        operations=2,
    ),
]
