"""Generators over tensors: made, begun, sent to, closed and left in names; and iterators."""

from __future__ import annotations

from tests.corpus.case import Case, case

X = (
    "# plain\nimport itertools\nimport torch\nx = torch.arange(3.)\ny = x + 1\n"
    "def gen(t):\n    for i in range(3):\n        yield t * i\n"
    "def endless(t):\n    i = 0\n    while True:\n        yield t * i\n        i += 1"
)


def left(name: str, cell: str, later: str, **known: int) -> Case:
    """A cell with an operation before and after, and what a later plain cell makes of it."""
    return case(name, X, f"y = x + 1\n{cell}\nz = y * 2", f"# plain\n{later}", **known)


CASES: list[Case] = [
    left("a generator expression left in a name", "g = (y * i for i in range(3))", "list(g)"),
    left("a generator left in a name", "g = gen(y)", "list(g)", graphs=2, operations=2),
    left("an endless generator left in a name", "g = endless(y)", "next(g), next(g)"),
    left("a generator that was begun", "g = gen(y)\na = next(g)", "list(g)"),
    left("a generator that is used up", "g = gen(y)\na = list(g)", "list(g), g.gi_frame"),
    left("a generator in a list", "gs = [gen(y), gen(y + 1)]", "[list(g) for g in gs]"),
    left("a generator in a dictionary", "d = {'a': gen(y)}", "list(d['a'])"),
    left(
        "a generator in an attribute",
        "class O: pass\no = O()\ny = x + 1\no.g = gen(y)",
        "list(o.g)",
    ),
    left("a generator from a function", "def f(t): return gen(t * 2)\ng = f(x)", "list(g)"),
    left(
        "a generator in a default",
        "def f(t, kept=[]):\n    kept.append(gen(t))\n    return t * 2\nw = f(y)",
        "list(f.__defaults__[0][0])",
    ),
    left(
        "a generator that reads a name when asked",
        "k = 2\ng = (y * k for _ in range(2))\nk = 5",
        "a = next(g)\nk = 7\na, next(g)",
    ),
    left(
        "a generator whose list changes meanwhile",
        "scale = [1]\ndef scaled(t):\n    while True:\n        yield t * scale[0]\n"
        "g = scaled(y)\na = next(g)\nscale[0] = 5\nprint(a)\nb = next(g)",
        "next(g)",
    ),
    left(
        "a generator across a print",
        "g = gen(y)\na = next(g)\nprint(a)\nb = next(g)",
        "next(g), list(g)",
    ),
    left(
        "a generator that appends",
        "log = []\ndef noted(t):\n    for i in range(3):\n        log.append(i)\n        yield t * i\n"
        "g = noted(y)\na = next(g)",
        "len(log), list(g), log",
    ),
    left(
        "a generator that is sent to",
        "def total():\n    s = 0\n    while True:\n        s = s + (yield s)\ng = total()\nnext(g)\n"
        "a = g.send(y)",
        "g.send(x)",
    ),
    left("a generator that is closed", "g = gen(y)\na = next(g)\ng.close()", "list(g)"),
    left(
        "a generator that is thrown into",
        "g = gen(y)\na = next(g)\ntry:\n    g.throw(ValueError('no'))\nexcept ValueError as e:\n"
        "    said = str(e)",
        "said, g.gi_frame",
    ),
    left(
        "a generator that delegates",
        "def outer(t):\n    yield from gen(t)\n    yield t\ng = outer(y)\na = next(g)",
        "list(g)",
    ),
    left(
        "a generator of generators",
        "def outer(t):\n    yield gen(t)\n    yield gen(t + 1)\ng = next(outer(y))",
        "list(g)",
    ),
    left(
        "an object whose iterator is a generator",
        "class Rows:\n    def __iter__(self):\n        yield from gen(x)\ny = x + 1\nit = iter(Rows())\n"
        "w = [v + 1 for v in Rows()]",
        "list(it)",
    ),
    left("a generator in zip", "g = zip(gen(y), endless(y))", "list(g)"),
    left("a generator in map", "g = map(torch.sum, gen(y))", "list(g)"),
    left("a generator in filter", "g = filter(torch.is_tensor, gen(y))", "list(g)"),
    left("an endless generator in enumerate", "g = enumerate(endless(y))", "next(g), next(g)"),
    left("a generator in itertools", "g = itertools.chain(gen(y), [y])", "type(g), list(g)"),
    left("an endless generator in islice", "g = itertools.islice(endless(y), 2)", "list(g)"),
    left("parameters of a module", "p = torch.nn.Linear(3, 2).parameters()", "type(p), len([*p])"),
    case("a generator that is displayed", X, "y = x + 1\ngen(y)", "# plain\nlist(_)"),
    case(
        "generators that are used up where they are made",
        X,
        "a = sum(y * i for i in range(3))\nb = list(gen(y))\nc = torch.stack(tuple(gen(x)))\n"
        "d = dict((i, v) for i, v in enumerate(gen(y)))\ne = [v + 1 for v in gen(y)]\n"
        "f, *g = gen(y)\nh = all(v.ndim == 1 for v in gen(y))",
        graphs=1,
    ),
    case(
        "a generator that a function uses up",
        X,
        "def f(t):\n    g = (t * i for i in range(3))\n    first = next(g)\n    return first + sum(g)\n"
        "z = f(y)",
        graphs=1,
    ),
    case(
        "a generator in a function with a print half-way",
        X,
        "def f(t):\n    g = gen(t)\n    a = next(g)\n    print(a)\n    return a + next(g)\nz = f(y)",
    ),
    case(
        "a generator of an earlier cell",
        X,
        "# plain\ng = gen(x)\nh = (x * i for i in range(3))",
        "y = x + next(g)\na = [v for v in h]\nz = y * 2",
        "# plain\nlist(g), list(h)",
    ),
    case(
        "a generator of an earlier cell in a loop",
        X,
        "# plain\ng = gen(x)",
        "z = x * 0\nfor v in g:\n    z = z + v",
        "# plain\nlist(g)",
    ),
]
