"""What a cell changes under its own feet: methods, builtins, finalisers, memory that overlaps."""

from __future__ import annotations

from tests.corpus.case import Case, case, cases

CLASSES_HEAD = """# plain
import torch
class Net(torch.nn.Module):
    calls = 0
    def forward(self, x):
        return x + 1
class C:
    k = 1
    def go(self, x):
        return x + self.k
class Sub(C):
    pass
net, c, s = Net(), C(), Sub()
x = torch.ones(2)
"""

FINALISED_HEAD = """# plain
import torch
log = []
class D:
    def __init__(self, t):
        self.t = t
    def __del__(self):
        log.append(("gone", hasattr(self, "t")))
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(2, 2)
    def forward(self, x):
        return self.lin(x)
    def __del__(self):
        log.append("module gone")
x = torch.ones(2)
"""

REPLACED = [
    *cases(
        CLASSES_HEAD,
        """
## forward replaced
a = net(x)
Net.forward = lambda self, x: x * 10
b = net(x)
## method replaced by setattr
a = c.go(x)
setattr(C, "go", lambda self, x: x * 10)
b = c.go(x)
## base's method replaced
a = s.go(x)
C.go = lambda self, x: x * 10
b = s.go(x), Sub.go(s, x)
## method added to a subclass
a = s.go(x)
Sub.go = lambda self, x: x * 10
b = s.go(x)
del Sub.go
d = s.go(x)
## class attribute read by the object
a = c.go(x)
C.k = 5
b = c.go(x)
C.k += 1
d = s.go(x), c.k, Sub.k
## class counter in a function
def f(x):
    Net.calls += 1
    return net(x) * net.calls
ys = [f(x) for _ in range(3)]
n = Net.calls
## class of an object replaced
class Other:
    k = 2
    def go(self, x):
        return x * 100
a = c.go(x)
c.__class__ = Other
b = c.go(x)
## forward replaced in a loop
out = []
for k in range(3):
    y = net(x)
    out.append(y.tolist())
    Net.forward = (lambda k: lambda self, x: x * (k + 10))(k)
    z = net(x)
    print(z.sum().item())
## replaced in a function that is called again
def f(x):
    return net(x) * 2
def g():
    Net.forward = lambda self, x: x * 10
a = f(x)
print(a.sum().item())
g()
b = f(x)
print(b.sum().item())
del Net.forward
Net.forward = lambda self, x: x * 7
d = f(x)
print(d.sum().item())
""",
    ),
    case(
        "mock patch",
        CLASSES_HEAD,
        """
    from unittest import mock
    def f(x):
        y = net(x) * 2
        print(y.sum().item())
        return y
    a = f(x)
    with mock.patch.object(Net, "forward", lambda self, x: x * 10):
        b = f(x)
    d = f(x)
""",
        differs="untraced code changes the class, and no guard looks at its functions",
    ),
    *cases(
        CLASSES_HEAD,
        """
## in a loop through exec
out = []
for k in range(3):
    y = net(x)
    out.append(y.tolist())
    exec(f"Net.forward = lambda self, x: x * ({k} + 10)")
## plain statement between
def f(x):
    y = net(x) * 2
    print(y.sum().item())
    return y
a = f(x)
exec("Net.forward = lambda self, x: x * 10")
b = f(x)
## property replaced
C.double = property(lambda self: 2)
a = x * c.double
C.double = property(lambda self: 3)
b = x * c.double
## __call__ and operators replaced
C.__call__ = lambda self, x: x + 5
a = c(x)
C.__call__ = lambda self, x: x + 6
b = c(x)
C.__add__ = lambda self, x: x + 7
d = c + x
C.__len__ = lambda self: 4
e = x * len(c)
## staticmethod classmethod replaced
C.make = staticmethod(lambda x: x + 5)
a = c.make(x), C.make(x)
C.make = classmethod(lambda cls, x: x + cls.k)
b = c.make(x), C.make(x), Sub.make(x)
## builtin replaced
import builtins
old = builtins.len
y = x + 1
builtins.len = lambda x: 42
n = len(x)
z = x * len([1])
builtins.len = old
m = len(x)
## builtin added and deleted
import builtins
builtins.shout = lambda x: x * 3
n = shout(x)
del builtins.shout
try:
    shout(x)
except NameError as e:
    said = str(e)
## own module's name
import __main__
__main__.w = x * 2
z = w + 1
setattr(__main__, "w", x * 3)
z2 = w + 1
## sys modules name
import sys
me = sys.modules["__main__"]
k = 2
y = x * k
me.k = 5
z = x * k
## function's parts replaced
def f(x, k=1):
    return x * k
def g(x, k=1):
    return x - k
a = f(x)
f.__defaults__ = (5,)
b = f(x)
f.__code__ = g.__code__
d = f(x)
## function attribute
def f(x):
    f.calls += 1
    return x * f.calls
f.calls = 0
a = f(x)
b = f(x)
n = f.calls
## instance dict
a = c.go(x)
c.__dict__["go"] = lambda x: x * 10
b = c.go(x)
vars(c)["k"] = 3
d = Sub.go(c, x)
net.__dict__["forward"] = lambda x: x * 4
e = net(x)
## torch function replaced
old = torch.relu
a = torch.relu(-x)
torch.relu = lambda x: x * 10
b = torch.relu(-x)
torch.relu = old
d = torch.relu(-x)
## tensor method replaced
a = x.sum()
torch.Tensor.thrice = lambda self: self * 3
b = x.thrice()
torch.Tensor.thrice = lambda self: self * 4
d = x.thrice()
del torch.Tensor.thrice
## layer's class attribute
lin = torch.nn.Linear(2, 2)
a = lin(x)
old = torch.nn.Linear.forward
torch.nn.Linear.forward = lambda self, x: x * 10
b = lin(x)
torch.nn.Linear.forward = old
d = lin(x)
""",
    ),
]

FINALISED = [
    *cases(
        FINALISED_HEAD,
        """
## made and dropped in a cell
d = D(x)
y = d.t + 1
log.append("before")
d = None
log.append("after")
z = y + 1
## made in a function
def f(x):
    d = D(x)
    y = d.t + 1
    return y
y = f(x)
log.append("after")
z = f(y)
log.append("after")
## made in a loop
for k in range(3):
    d = D(x * k)
    y = d.t + 1
    log.append(k)
## temporary
y = D(x).t + 1
log.append("after")
z = [D(x + k) for k in range(2)]
log.append("after list")
z = 1
log.append("end")
## module
m = M()
y = m(x)
m = M()
y = m(x)
log.append("end")
## init fails
class E:
    def __init__(self, t):
        self.t = t.nothing
    def __del__(self):
        log.append(("gone", hasattr(self, "t")))
y = x + 1
try:
    e = E(x)
except AttributeError:
    log.append("caught")
""",
    ),
    case(
        "finalize",
        FINALISED_HEAD,
        """
    import weakref
    class P:
        pass
    p = P()
    p.t = x
    weakref.finalize(p, log.append, "finalized")
    y = p.t + 1
    log.append("before")
    p = None
    log.append("after")
""",
        differs="what a name held is let go when the graph's effects are applied",
    ),
    case(
        "attribute overwritten",
        FINALISED_HEAD,
        """
    class Holder:
        pass
    h = Holder()
    h.d = D(x)
    y = h.d.t + 1
    h.d = None
    log.append("after")
""",
    ),
]

OVERLAPPING = [
    case(
        "shifted",
        "# plain\nimport torch\nx = torch.arange(6.)",
        """
    a = x + 1
    x[1:].add_(x[:-1])
    b = 2
""",
        raises="RuntimeError",
    ),
    case(
        "expanded",
        "# plain\nimport torch",
        """
    x = torch.ones(3).expand(2, 3)
    a = x + 1
    x.add_(1)
""",
        raises="RuntimeError",
    ),
    case(
        "expanded in another cell",
        "# plain\nimport torch\nx = torch.ones(1).expand(3)",
        """
    a = x + 1
    b = 7
    x.add_(1)
    c = 8
""",
        raises="RuntimeError",
    ),
    case(
        "augmented",
        "# plain\nimport torch\nx = torch.ones(1).expand(3)",
        """
    a = x + 1
    x += 1
    c = 8
""",
        raises="RuntimeError",
    ),
    case(
        "two inputs",
        "# plain\nimport torch\nx = torch.arange(6.)\nu = x[1:]\nv = x[:-1]",
        """
    a = x + 1
    u.mul_(v)
    c = 8
""",
        raises="RuntimeError",
    ),
    case(
        "in a function",
        "# plain\nimport torch\nx = torch.arange(6.)\ndef f(x):\n    y = x * 2\n    y[2:] += y[:-2]\n    return y",
        """
    a = x + 1
    z = f(x)
    c = 8
""",
        raises="RuntimeError",
    ),
    case(
        "slice assigned",
        "# plain\nimport torch\nx = torch.arange(6.)",
        """
    a = x + 1
    x[1:] = x[:-1]
    c = 8
""",
        raises="RuntimeError",
    ),
    case(
        "out of an operation",
        "# plain\nimport torch\nx = torch.arange(6.)",
        """
    a = x + 1
    torch.add(x[1:], x[:-1], out=x[1:])
    c = 8
""",
        raises="RuntimeError",
    ),
    case(
        "relu inplace on expanded",
        "# plain\nimport torch\nx = torch.ones(1).expand(3)",
        """
    a = x + 1
    y = torch.nn.functional.relu(x, inplace=True)
    c = 8
""",
        raises="RuntimeError",
    ),
    case(
        "expanded and filled",
        "# plain\nimport torch\nx = torch.zeros(1).expand(3)",
        """
    a = x + 1
    x.fill_(3)
    x.zero_()
    x[0] = 5
    c = x + 8
""",
    ),
    case(
        "same rows are fine",
        "# plain\nimport torch\nx = torch.arange(12.).reshape(3, 4)",
        """
    x[0].add_(x[1])
    x[:, 0].mul_(x[:, 1])
    x[1].add_(x[1])
    x += x
    y = x.t()
    y.mul_(x[:, :3].t().sum())
    c = x + 8
""",
        graphs=1,
    ),
]

WRAPS = "torch copies annotations where functools.wraps shares them, and 2.11 keeps the name"

WRAPPING = [
    case(
        "names of what vmap and grad give",
        """
    import torch
    def f(x):
        "doc"
        return x * 2
    def s(x):
        return (x ** 2).sum()
    x = torch.ones(3)
    g = torch.vmap(f)
    h = torch.func.grad(lambda x: (x ** 2).sum())
    gv = torch.func.grad_and_value(s)
    names = g.__name__, h.__name__, g.__doc__, g.__wrapped__ is f
    y = g(torch.ones(3)), h(x), gv(x)
""",
        differs=WRAPS,
        differs_on=("2.14", "2.15"),
    ),
    case(
        "vmap and grad called at once",
        """
    import torch
    def s(x):
        return (x ** 2).sum()
    x = torch.ones(3, 2)
    y = torch.vmap(s)(x) + torch.vmap(torch.func.grad(s))(x).sum()
    z = torch.vmap(torch.sin)(x)
""",
    ),
    case(
        "vmap of a module, a builtin and a partial",
        """
    import torch, functools
    lin = torch.nn.Linear(2, 1)
    x = torch.ones(3, 2)
    b = torch.vmap(torch.sin)
    c = torch.vmap(functools.partial(torch.mul, x[0]))
    d = torch.vmap(torch.vmap(torch.sin))
    y = x + 1
    out = torch.vmap(lin)(x), b(x), c(x), d(x)
""",
        "name = d.__name__\ndel d",
    ),
    case(
        "decorator that wraps",
        """
    import torch, functools
    def deco(f):
        @functools.wraps(f)
        def g(*a):
            return f(*a) + 1
        return g
    def f(x):
        return x * 2
    x = torch.ones(3)
    y = x + 1
    h = deco(f)
    n = h.__name__
    z = h(y)
""",
        differs=WRAPS,
        differs_on=("2.11", "2.14", "2.15"),
    ),
    case(
        "derivatives kept",
        """
    import torch
    def f(x):
        return x.sin()
    x = torch.ones(3)
    j = torch.func.jacrev(f)
    k = torch.func.functionalize(f)
    o, v = torch.func.vjp(f, x)
    y = j(x), v(x)
    del v
""",
        differs=WRAPS,
        differs_on=("2.14", "2.15"),
    ),
]

CASES: list[Case] = [*REPLACED, *FINALISED, *OVERLAPPING, *WRAPPING]
