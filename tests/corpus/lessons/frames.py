"""Functions that look at the names of the functions that call them, and at their own."""

from __future__ import annotations

from tests.corpus.case import Case, case

KEEPER = """
# plain
import inspect, sys, torch
class Base:
    def keep(self):
        _, _, _, v = inspect.getargvalues(inspect.currentframe().f_back)
        self.hp = {k: x for k, x in v.items() if k != "self" and not k.startswith("_")}
class Data(Base):
    def __init__(self, root=".", workers=4): self.keep()
class Synthetic(Data):
    def __init__(self, w, noise=0.01, n=10, batch_size=32):
        super().__init__(); self.keep(); self.X = torch.randn(n, len(w)); self.y = self.X @ w + noise
torch.manual_seed(0)
w = torch.ones(2)
"""
NAMES = """
# plain
import sys, torch
def names(depth=1): return sorted(sys._getframe(depth).f_locals)
def is_here(depth=1): return sys._getframe(depth).f_locals is globals()
x = torch.ones(2)
"""

CASES: list[Case] = [
    case(
        "arguments that a constructor keeps",
        KEEPER,
        "data = Synthetic(w)\ndata.hp, data.y",
        "[Synthetic(w * i, n=i).hp for i in range(2)]",
        inductor=True,
    ),
    case(
        "arguments that a constructor keeps, between operations",
        KEEPER,
        "v = w * 2\ndata = Synthetic(v)\nout = (data.X @ v).tanh() + v.sum()\nout",
        "data.hp, v",
    ),
    case(
        "arguments that are kept after a graph break",
        KEEPER,
        """
        class Later(Base):
            def __init__(self, w, noise=0.01, *rest, **more):
                once = w * 2
                print("made")
                twice = once + 1
                self.keep()
                self.z = twice * noise
        later = Later(w, 0.5, 1, two=2)
        later.hp, later.z
        """,
        "def made(v):\n    u = v + 1\n    return Later(u).hp, (u * 2).sum()\nmade(w)",
        "made(w * 3)",
        inductor=True,
    ),
    case(
        "arguments of modules that are kept, then trained",
        KEEPER,
        """
        class Net(torch.nn.Module, Base):
            def __init__(self, width=3, lr=0.1):
                super().__init__()
                self.keep()
                self.layer = torch.nn.Linear(2, width)
            def forward(self, t):
                return self.layer(t).tanh()
        net = Net(lr=0.5)
        opt = torch.optim.SGD(net.parameters(), net.hp["lr"])
        for step in range(2):
            loss = net(torch.ones(4, 2)).sum()
            opt.zero_grad(); loss.backward(); opt.step()
            print(f"{loss.item():.3f}")
        sorted(net.hp)
        """,
    ),
    case(
        "names of a caller that has printed",
        NAMES,
        """
        def f(t):
            a = t * 2; b = a + 1
            print(b)
            c = b * 2
            return names(), c
        f(x)
        """,
        "y = f(x + 1)\ny[0], y[1].sum()",
    ),
    case(
        "a function's own names after a graph break",
        NAMES,
        """
        def f(t):
            a = t * 2; b = a + 1
            print(b)
            b = b * 2
            return sorted(locals()), sorted(vars()), dir(), eval("a") + b
        f(x)
        """,
        "def g(t):\n    a = t * 2\n    print(a)\n    exec('print(sorted(locals()))')\n    return t + 1\ng(x)",
        "def h(t):\n    a = t * 2\n    print('{a}'.format(**locals()))\n    return t + 1\nh(x), h(x)",
    ),
    case(
        "the names of the cell are its local names",
        NAMES,
        "y = x * 2\nprint(y)\nz = y + 1\nhere = is_here()\nz * 2, here",
        "for i in range(2):\n    y = y + 1\n    print(i)\n    here = is_here()\n    z = y * 2",
        "here, z, [is_here(2) for _ in range(2)], [k for k in globals() if 'tmp' in k or 'stack' in k]",
    ),
    case(
        "names through decorators, closures and properties",
        NAMES,
        """
        import functools
        def logged(f):
            @functools.wraps(f)
            def wrapper(*args): return f(*args)
            return wrapper
        @logged
        def callers(): return names(3)
        class Holder:
            @property
            def seen(self): return names(2)
        holder = Holder()
        def f(t):
            a = t * 2
            print(a)
            b = t + 1
            return callers(), holder.seen, b
        f(x)
        """,
    ),
    case(
        "the name of a caller",
        NAMES,
        """
        import inspect
        def caller(): return sys._getframe(1).f_code.co_name, inspect.stack()[1].function
        def f(t):
            b = t * 2
            print(b)
            b = b + 1
            return caller(), b
        f(x)
        """,
    ),
    case(
        "a query with names of the function",
        NAMES,
        """
        import pandas as pd
        table = pd.DataFrame({"a": [1, 2, 3]})
        def f(t):
            least = int(t.sum())
            b = t * 2
            print(b)
            return len(table.query("a > @least")), table.eval("a + @least").tolist(), b + 1
        f(x)
        """,
    ),
]
