"""Cells of lessons that have NumPy beside torch: shared memory, in place, its own random numbers."""

from __future__ import annotations

from tests.corpus.case import Case, case

NP = "# plain\nimport numpy as np\nimport torch\nx = torch.ones(3)"

CASES: list[Case] = [
    case("array of a tensor, in place", NP, "n = x.numpy()\nn += 1\ny = x * 2", inductor=True),
    case(
        "new array of a tensor, in place",
        NP,
        "y = torch.zeros(3)\nm = np.asarray(y)\nm += 1\nz = y + 1",
    ),
    case(
        "element set, then another view",
        NP,
        "n = x.numpy()\nn[0] = 5\ny = x * 2\nm = np.asarray(y)\nm += 1\ny",
        inductor=True,
    ),
    case(
        "logged before and after",
        NP,
        """
        log = []
        log.append(x.sum().item())
        n = x.numpy()
        n *= 3
        log.append(float(n.sum()))
        """,
    ),
    case(
        "array that torch looks at",
        NP,
        "a = np.arange(4.)\nt = torch.from_numpy(a)\na[1] = 10\ns = t.sum()\nt[0] = 7\na",
    ),
    case(
        "rows of an array",
        NP,
        """
        m = torch.arange(6.).reshape(2, 3)
        for row in m.numpy():
            row += 1
        total = m.sum()
        """,
    ),
    case(
        "out of a ufunc", NP, "n = x.numpy()\nnp.add(n, 1, out=n)\nnp.multiply(n, 2, n)\ny = x + 0"
    ),
    case(
        "methods of an array",
        NP,
        "t = torch.tensor([3., 1., 2.])\nn = t.numpy()\nn.sort()\ny = t * 1\nn.fill(4)\nz = t + 1",
    ),
    case(
        "slices of an array",
        NP,
        "t = torch.zeros(2, 3)\nn = t.numpy()\nn[:, 1] = 5\nn[n > 4] -= 1\nn[0, ::2] = [7, 8]\ny = t * 2",
    ),
    case(
        "a loop in place",
        NP,
        """
        n = x.numpy()
        for i in range(3):
            n += i
            print(i, x.sum().item(), n.sum())
        """,
    ),
    case(
        "random numbers of both",
        NP,
        "a = np.random.rand(2)\nb = torch.rand(2)\nc = np.random.randint(0, 9, 3)\nd = b + 1\ne = np.random.rand()",
    ),
    case(
        "a generator of NumPy's",
        NP,
        "rng = np.random.default_rng(5)\nx1 = torch.tensor(rng.integers(0, 9, 3))\ny = x1 * 2\nz = rng.random()\ndel rng",
    ),
    case(
        "shuffled in place",
        NP,
        "t = torch.arange(5)\nnp.random.shuffle(t.numpy())\ny = t + 1\nt",
    ),
    case(
        "scalar of NumPy's",
        NP,
        "s = np.float64(2.5)\ny = x * s\nz = x + float(s)\nk = x * int(np.int64(3))",
        inductor=True,
    ),
    case("ufunc of a tensor", NP, "y = np.sqrt(x * 4)\nz = x + 1\ntype(y).__name__"),
    case(
        "array of a tensor that needs gradients",
        NP,
        "w = torch.ones(2, requires_grad=True)\ny = w * 2\nn = y.numpy()\nz = 1",
        raises="RuntimeError",
    ),
    case(
        "shapes that do not fit",
        NP,
        "a = x + 1\nn = np.ones(3) + np.ones(2)\nb = x + 2",
        raises="ValueError",
    ),
    case(
        "losses collected",
        NP,
        """
        losses = np.zeros(3)
        w = torch.tensor(1.)
        for i in range(3):
            w = w * 0.5
            losses[i] = w.item()
        best = losses.argmin()
        """,
        inductor=True,
    ),
    case(
        "saved and loaded by NumPy",
        NP,
        """
        import io
        file = io.BytesIO()
        np.save(file, (x * 2).numpy())
        file.seek(0)
        y = torch.from_numpy(np.load(file)) + 1
        del file
        """,
    ),
    case(
        "copied and not copied",
        NP,
        "a = torch.tensor(x.numpy())\nb = torch.as_tensor(x.numpy())\nx += 1\nc = a + b\na, b",
        inductor=True,
    ),
    case(
        "vectorized Python",
        NP,
        "f = np.vectorize(lambda v: v * 2 + 1)\ny = torch.tensor(f(x.numpy()))\nz = y - 1\ndel f",
    ),
    case(
        "in place in a function",
        NP,
        """
        def scale(t, factor):
            n = t.numpy()
            n *= factor
            return t + 0
        y = scale(x, 2)
        z = scale(x, 3)
        """,
    ),
    case(
        "swapped elements",
        NP,
        "t = torch.tensor([1., 2., 3.])\nn = t.numpy()\nn[0], n[2] = n[2], n[0]\ny = t * 10\nt",
    ),
]
