"""Cells of lessons in Python: generators, classes that are edited, context managers."""

from __future__ import annotations

from tests.corpus.case import Case, case, cases

T = "# plain\nimport torch\nx = torch.ones(3)"
NET = (
    T
    + """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2
    def forward(self, x):
        return x * self.scale
net = Net()"""
)

GENERATORS = [
    case(
        "batches by a generator",
        T,
        """
        def batches(data, size):
            for i in range(0, len(data), size):
                yield data[i : i + size]
        data = torch.arange(6.)
        for batch in batches(data, 2):
            print(batch.sum().item())
        sums = [b.sum() for b in batches(data, 3)]
        """,
        inductor=True,
    ),
    case(
        "generator kept for the next cell",
        T,
        "def count(x):\n    while True:\n        yield x\n        x = x + 1\ng = count(x)\na = next(g)",
        "b = next(g)\nc = next(g) * 2",
        "g.close()",
    ),
    case(
        "generator half used",
        T,
        "g = (x * i for i in range(4))\nfor y in g:\n    if y.sum() > 3:\n        break\nrest = list(g)",
    ),
    case(
        "generator closed with a word",
        T,
        """
        def g(x):
            try:
                yield x + 1
                yield x + 2
            finally:
                print('closed')
        it = g(x)
        a = next(it)
        it.close()
        b = a * 2
        """,
    ),
    case(
        "iterators half used",
        T,
        """
        it = iter([x, x + 1, x + 2])
        pairs = zip(it, 'abc')
        first = next(pairs)
        y = first[0] * 2
        rest = [letter for _, letter in pairs]
        """,
        differs="torch hands out an iterator over a copy of the list",
    ),
    *cases(
        T,
        """
## slices of an endless counter
import itertools
counter = itertools.count(1)
ys = [x * k for k in itertools.islice(counter, 3)]
after = next(counter)
## map and filter kept
m = map(lambda k: x * k, range(3))
a = next(m)
b = list(m)
f = list(filter(lambda t: t.sum() > 3, b))
## object that iterates
class Data:
    def __init__(self, n):
        self.n, self.opened = n, 0
    def __iter__(self):
        self.opened += 1
        for i in range(self.n):
            yield x * i
data = Data(3)
total = sum(t.sum() for t in data)
again = [t for t in data]
opened = data.opened
## generator that raises -> ValueError
def g():
    yield x
    raise ValueError('no more data')
got = []
for y in g():
    got.append(y + 1)
## generator into which an exception is thrown
def g():
    try:
        yield x
    except KeyError as error:
        yield x * len(error.args)
it = g()
a = next(it)
b = it.throw(KeyError('k'))
c = a + b
# %%
it.close()
## two generators take turns
def walk(x, step):
    for _ in range(2):
        x = x + step
        yield x
one, two = walk(x, 1), walk(x, 10)
ys = [next(one), next(two), next(one), next(two)]
left = list(one)
""",
    ),
]

CLASSES = [
    case(
        "method added by a decorator",
        T,
        """
        def add_to_class(cls):
            def wrapper(function):
                setattr(cls, function.__name__, function)
            return wrapper
        class Board:
            def __init__(self):
                self.points = []
        board = Board()
        """,
        "@add_to_class(Board)\ndef draw(self, t):\n    self.points.append(t * 2)\n    return len(self.points)",
        "n = board.draw(x)\nm = board.draw(x + 1)\nboard.points",
    ),
    case(
        "forward edited between cells",
        NET,
        "y = net(x)",
        "def forward(self, x):\n    return x - self.scale\nNet.forward = forward",
        "z = net(x)",
        inductor=True,
    ),
    case(
        "class defined again",
        NET,
        "a = net(x)",
        "class Net(torch.nn.Module):\n    def forward(self, x):\n        return x + 7\nnew = Net()",
        "b, c = net(x), new(x)\nisinstance(net, Net)",
        inductor=True,
    ),
    case(
        "attribute of a class counts",
        T,
        """
        class Counted:
            made = 0
            def __init__(self, t):
                Counted.made += 1
                self.number = Counted.made
                self.t = t * self.made
        objects = [Counted(x) for _ in range(3)]
        last = objects[-1].t
        """,
        inductor=True,
    ),
    case(
        "super in an edited class",
        NET,
        """
        class Bigger(Net):
            def forward(self, x):
                return super().forward(x) + 1
        big = Bigger()
        a = big(x)
        Net.forward = lambda self, x: x * 50
        b = big(x)
        """,
    ),
    case(
        "one object's own method",
        NET,
        "other = Net()\nother.forward = lambda x: x - 1\na, b = net(x), other(x)\ndel other.forward\nc = other(x)",
    ),
    *cases(
        T,
        """
## operators of a class [inductor]
class Vector:
    def __init__(self, t):
        self.t = t
    def __add__(self, other):
        return Vector(self.t + other.t)
    def __mul__(self, k):
        return Vector(self.t * k)
    def __repr__(self):
        return f'Vector({self.t.tolist()})'
v = Vector(x) + Vector(x * 2)
w = v * 3
w
# %%
Vector.__mul__ = lambda self, k: Vector(self.t - k)
u = w * 3
u
## registry of classes [inductor]
known = {}
def register(cls):
    known[cls.__name__.lower()] = cls
    return cls
@register
class Double:
    def __call__(self, x):
        return x * 2
@register
class Half:
    def __call__(self, x):
        return x / 2
ys = {name: cls()(x) for name, cls in known.items()}
## object that delegates
class Proxy:
    def __init__(self, inner):
        self.inner, self.asked = inner, []
    def __getattr__(self, name):
        self.asked.append(name)
        return getattr(self.inner, name)
p = Proxy(x)
y = p.sum() + p.shape[0]
asked = list(p.asked)
## abstract class -> TypeError
import abc
class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
class Square(Shape):
    def __init__(self, t):
        self.t = t
    def area(self):
        return self.t * self.t
a = Square(x * 3).area()
b = Shape()
## dataclass edited
from dataclasses import dataclass, field, replace
@dataclass
class Run:
    loss: torch.Tensor
    notes: list = field(default_factory=list)
r = Run(x)
r.loss = r.loss * 2
r.notes.append('first')
# %%
@dataclass
class Run:
    loss: torch.Tensor
    lr: float = 0.5
q = Run(x)
s = replace(q, lr=0.25)
y = s.loss * s.lr
""",
    ),
]

MANAGERS = [
    *cases(
        T,
        """
## manager that prints
class Section:
    def __init__(self, name):
        self.name = name
    def __enter__(self):
        print('begin', self.name)
        return self
    def __exit__(self, *error):
        print('end', self.name)
with Section('one') as s:
    y = x + 1
    with Section('two'):
        z = y * 2
## manager that forgives
class Forgive:
    def __enter__(self):
        return self
    def __exit__(self, kind, error, trace):
        self.kind = kind
        return kind is ZeroDivisionError
with Forgive() as f:
    y = x + 1
    z = 1 / 0
    never = 1
w = y * 2
## manager of a generator [inductor]
from contextlib import contextmanager
log = []
@contextmanager
def noted(name):
    log.append(f'{name} in')
    try:
        yield x * 2
    finally:
        log.append(f'{name} out')
with noted('a') as y:
    z = y + 1
    log.append('inside')
## error in a managed block -> RuntimeError
from contextlib import contextmanager
@contextmanager
def closing():
    try:
        yield
    finally:
        print('closed')
with closing():
    y = x + 1
    z = y @ torch.ones(5)
""",
    ),
    case(
        "a value put back afterwards",
        NET,
        """
        from contextlib import contextmanager
        @contextmanager
        def scaled(net, value):
            before, net.scale = net.scale, value
            try:
                yield net
            finally:
                net.scale = before
        a = net(x)
        with scaled(net, 10):
            b = net(x)
        c = net(x)
        """,
    ),
    *cases(
        T,
        """
## stack of managers
import contextlib
log = []
with contextlib.ExitStack() as stack:
    for k in range(2):
        stack.callback(log.append, k)
    y = x * 2
    stack.callback(log.append, 'last in')
z = y + len(log)
del stack
## output caught
import contextlib, io
out = io.StringIO()
with contextlib.redirect_stdout(out):
    print('sum', x.sum().item())
    y = x * 2
text = out.getvalue()
del out
## gradients switched by a manager of the user's
class NoGrad:
    def __enter__(self):
        self.before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
    def __exit__(self, *_):
        torch.set_grad_enabled(self.before)
w = torch.ones(3, requires_grad=True)
with NoGrad():
    y = w * 2
z = w * 2
flags = y.requires_grad, z.requires_grad
## manager used as a decorator
import contextlib
class Counted(contextlib.ContextDecorator):
    calls = []
    def __enter__(self):
        self.calls.append('in')
    def __exit__(self, *_):
        self.calls.append('out')
@Counted()
def f(x):
    return x + len(Counted.calls)
y = f(x)
z = f(x)
## manager entered in a loop [inductor]
class Lap:
    def __init__(self):
        self.laps = []
    def __enter__(self):
        self.laps.append(0)
        return self
    def __exit__(self, *_):
        self.laps[-1] += 1
lap = Lap()
y = x
for k in range(3):
    with lap:
        y = y + k
## random numbers apart
with torch.random.fork_rng():
    torch.manual_seed(7)
    a = torch.rand(2)
b = torch.rand(2)
## files in a folder of their own
import tempfile, pathlib
with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / 'x.pt'
    torch.save(x * 2, file)
    y = torch.load(file) + 1
    there = file.exists()
gone = not file.exists()
del folder, file
## errors expected
import contextlib
found = []
for k in (3, 4):
    with contextlib.suppress(RuntimeError):
        found.append(x @ torch.ones(k))
y = x + len(found)
""",
    ),
]

CASES: list[Case] = [*GENERATORS, *CLASSES, *MANAGERS]
