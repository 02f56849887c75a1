"""Classes of every kind, made in cells and used in later ones."""

from __future__ import annotations

from tests.corpus.case import Case, case

CASES: list[Case] = [
    case(
        "class",
        "class A:\n    n = 1\n    def f(self): return self.n + k\nk = 1\nA().f()",
        "k = 5\na = A()\na.f()",
    ),
    case(
        "class looks",
        "class A:\n    'doc'\n    class B: pass\nA.__qualname__, A.B.__qualname__, A.__module__, A",
    ),
    case(
        "class source",
        "import inspect\nclass A:\n    x = 1\n\n    def f(self):\n        return 2\n",
        "print(inspect.getsource(A.f))",
    ),
    case(
        "inheritance and super",
        "class A:\n    def f(self): return ['A']\nclass B(A):\n"
        "    def f(self): return super().f() + ['B', __class__.__name__]\nB().f()",
    ),
    case(
        "class body reads globals",
        "n = 3\nclass A:\n    m = n * 2\n    ns = [n for _ in range(2)]\n    n = m + n\n"
        "A.m, A.ns, A.n, n",
    ),
    case(
        "class body runs code",
        "class A:\n    for i in range(3):\n        print(i)\n    del i\nvars(A).keys() >= {'__module__'}",
    ),
    case(
        "class between rebindings",
        "k = 1\nclass A:\n    v = k\nk = 2\nclass B:\n    v = k\nA.v, B.v",
    ),
    case(
        "class redefined", "class A: v = 1\na = A()", "class A: v = 2\na.v, A().v, isinstance(a, A)"
    ),
    case(
        "class annotations",
        "class A:\n    x: int\n    y: 'str' = ''\nA.__annotations__, '__annotations__' in globals()",
    ),
    case(
        "exception in a class body",
        "a = 1\nclass A:\n    x = 1\n    y = x / 0",
        "'A' in globals(), a",
        raises="ZeroDivisionError",
    ),
    case(
        "exception in __init__",
        "class A:\n    def __init__(self, v):\n        self.v = int(v)\nA('1').v\nA('x')",
        raises="ValueError",
    ),
    case(
        "type()-made",
        "T = type('T', (dict,), {'z': 1, 'f': lambda self: k})\nk = 3\nt = T(a=1)\nt.f(), t, T",
    ),
    case(
        "metaclass",
        "class M(type):\n    def __new__(m, n, b, d):\n        d['made'] = n\n"
        "        return super().__new__(m, n, b, d)\nclass A(metaclass=M): pass\nA.made, type(A)",
    ),
    case(
        "init_subclass",
        "reg = []\nclass Base:\n    def __init_subclass__(cls, tag=0): reg.append((cls.__name__, tag))\n"
        "class X(Base, tag=3): pass\nreg",
    ),
    case(
        "properties and methods",
        "class A:\n    @property\n    def p(self): return self._p\n    @p.setter\n"
        "    def p(self, v): self._p = v + off\n    @staticmethod\n    def s(): return off\n    @classmethod\n"
        "    def c(cls): return cls.__name__, off\noff = 1\na = A(); a.p = 1",
        "off = 7\na.p = 1\na.p, A.s(), a.c()",
    ),
    case(
        "slots",
        "class P:\n    __slots__ = ('x', 'y')\n    def __init__(self, x): self.x = x\np = P(1)\np.x",
        "p.z = 1",
        raises="AttributeError",
    ),
    case(
        "operators",
        "class V:\n    def __init__(self, x): self.x = x\n    def __add__(self, o): return V(self.x + o.x)\n"
        "    def __matmul__(self, o): return self.x * o.x\n    def __eq__(self, o): return self.x == o.x\n"
        "    __hash__ = None\n    def __repr__(self): return f'V({self.x})'\nV(1) + V(2)",
        "V(3) @ V(4)",
    ),
    case(
        "descriptor",
        "class D:\n    def __set_name__(self, o, n): self.n = n\n"
        "    def __get__(self, i, o=None): return (self.n, i is None)\nclass A:\n    d = D()\nA.d, A().d",
    ),
    case(
        "name mangling",
        "class A:\n    def __init__(self): self.__v = 1\n    def get(self): return self.__v\n"
        "a = A()\nvars(a), a.get()",
    ),
    case(
        "dataclass",
        "from dataclasses import dataclass, field\n@dataclass\nclass P:\n    x: int\n"
        "    y: list = field(default_factory=list)\n    z: float = 0.5\np = P(1)\np.y.append(p.x)\np",
        "import dataclasses\ndataclasses.asdict(p), dataclasses.replace(p, x=3) == p",
    ),
    case(
        "frozen dataclass",
        "import dataclasses\n@dataclasses.dataclass(frozen=True, order=True)\nclass P:\n"
        "    x: int = 1\nP(1) < P(2), hash(P()) == hash(P())",
        "p = P()\np.x = 2",
        raises="FrozenInstanceError",
    ),
    case(
        "dataclass with string annotations",
        "from __future__ import annotations\nimport dataclasses, typing\n"
        "@dataclasses.dataclass\nclass N:\n    value: int\n    next: N | None = None\n    kind: typing.ClassVar[int] = 1\n"
        "N(1, N(2))",
        "typing.get_type_hints(N), [f.type for f in dataclasses.fields(N)]",
    ),
    case(
        "slots dataclass",
        "import dataclasses\n@dataclasses.dataclass(slots=True, kw_only=True)\nclass S:\n    a: int\n"
        "    b: int = 2\ns = S(a=1)\ns",
    ),
    case(
        "enum",
        "import enum\nclass C(enum.Enum):\n    RED = 1\n    BLUE = enum.auto()\n    @property\n"
        "    def low(self): return self.name.lower()\nc = C.BLUE\nc",
        "C(1) is C.RED, c.low, list(C)",
    ),
    case(
        "Generic",
        "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Box(Generic[T]):\n"
        "    def __init__(self, v: T) -> None: self.v = v\nb = Box[int](3)\nb.v, Box[int], T.__module__",
    ),
    case("type alias", "type Pair[T] = tuple[T, T]\nPair[int], Pair.__name__", python=(3, 12)),
    case(
        "generic syntax",
        "def first[T](xs: list[T]) -> T: return xs[0]\nclass B[T]:\n    v: T\nfirst([1]), B[int]",
        python=(3, 12),
    ),
    case(
        "iterator class",
        "class Up:\n    def __init__(self, n): self.n = n\n    def __iter__(self): return self\n"
        "    def __next__(self):\n        if self.n >= stop: raise StopIteration\n        self.n += 1\n"
        "        return self.n\nstop = 3\nlist(Up(0))",
        "stop = 5\n[*Up(3)]",
    ),
    case(
        "context manager class",
        "class C:\n    def __enter__(self):\n        print('in')\n        return self\n"
        "    def __exit__(self, t, v, tb):\n        print('out', t and t.__name__, v)\n        return swallow\nswallow = True\n"
        "with C() as c:\n    1 / 0\nprint('on')",
        "swallow = False\nwith c:\n    raise KeyError('k')",
        raises="KeyError",
    ),
    case(
        "callable object",
        "class F:\n    def __call__(self, x): return x + bias\nbias = 1\nf = F()\nf(1)",
        "bias = 2\nf(1)",
    ),
    case(
        "finaliser",
        "class F:\n    def __del__(self): print('gone')\nf = F()\nf = None\nprint('after')",
        "F()\nprint('end')",
    ),
    case(
        "object dies with its name",
        "import weakref\nclass O: pass\no = O()\nr = weakref.ref(o)",
        "del o\nr() is None",
    ),
    case(
        "exception class",
        "class Oops(ValueError):\n    def __init__(self, code):\n        super().__init__(f'code {code}')\n"
        "        self.code = code\ntry:\n    raise Oops(3)\nexcept Oops as e:\n    c = e.code\nc",
        "raise Oops(4)",
        raises="Oops",
    ),
    case(
        "pickle of own classes",
        "import pickle\nclass A:\n    def __init__(self): self.v = [1]\n    def __eq__(s, o): return s.v == o.v\n"
        "a = A()",
        "b = pickle.loads(pickle.dumps(a))\nb == a, type(b) is A",
    ),
    case(
        "repr of a class with an address",
        "class A: pass\nA()",
        "repr(A()).startswith('<__main__.A object at')",
    ),
    case(
        "instance attributes in order", "class A: pass\na = A()\na.z, a.b = 1, 2\na.a = 3\nvars(a)"
    ),
    case(
        "class in a function",
        "def make(v):\n    class L:\n        val = v\n        def get(self): return v, k\n    return L\nk = 1\nL = make(3)\n"
        "L.__qualname__",
        "k = 2\nL().get()",
    ),
    case(
        "object whose class cannot be asked",
        "import torch\nclass P:\n    @property\n    def __class__(self): raise RuntimeError('no')\n"
        "    def __call__(self): return 3\n    value = 2\np = P()\nx = torch.ones(3)",
        "y = x + p.value\nz = x + p()\ny, z",
        "def f(o): return x * o.value\nr = f(p), len([p])\ndel p\nr",
    ),
]
