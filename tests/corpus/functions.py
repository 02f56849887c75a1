"""Functions, lambdas, closures and generators that see the namespace as it changes."""

from __future__ import annotations

from tests.corpus.case import Case, case

CASES: list[Case] = [
    case(
        "function called later",
        "def f(a, b=2, *c, d, **e):\n    return a, b, c, d, e",
        "f(1, d=4), f(1, 2, 3, d=4, z=5)",
    ),
    case(
        "function sees a later rebinding", "k = 1\ndef f(): return k", "k = 2\nf()", "k = 3", "f()"
    ),
    case(
        "function sees a rebinding in its own cell",
        "k = 1\ndef f(): return k\na = f()\nk = 2\nb = f()\nk = [k]\nc = f()\na, b, c",
    ),
    case(
        "function between rebindings", "k = 1\nf = lambda: k\nr = [f()]\nk += 1\nr.append(f())\nr"
    ),
    case(
        "function reads a loop variable",
        "def f(): return i * 10\nout = []\nfor i in range(3):\n    out.append(f())\nout",
    ),
    case(
        "function reads a with and a walrus name",
        "import io\ndef f(): return h.read(), n\nwith io.StringIO('abc') as h:\n"
        "    (n := 3)\n    got = f()\ngot",
    ),
    case("function defined before its global", "def f(): return later", "f()", raises="NameError"),
    case(
        "function defined before its global, then bound", "def f(): return later", "later = 1\nf()"
    ),
    case("function changes a list", "log = []\ndef f(x): log.append(x)", "f(1)\nf(2)\nlog"),
    case("function redefined", "def f(): return 1\ng = f", "def f(): return 2\nf(), g()"),
    case(
        "function redefined in a branch",
        "flag = True",
        "if flag:\n    def f(): return 'yes'\nelse:\n    def f(): return 'no'\nf()",
    ),
    case(
        "function defined in a loop",
        "fs = []\nfor i in range(3):\n    def f(): return i\n    fs.append(f)\n[g() for g in fs]",
        "i = 9\n[g() for g in fs]",
    ),
    case(
        "function defined in try",
        "try:\n    def f(): return v\n    v = 1\nfinally:\n    w = f()\nw",
    ),
    case(
        "function defined in with",
        "import contextlib\nwith contextlib.suppress(NameError):\n"
        "    def f(): return missing\n    f()\nf.__qualname__",
    ),
    case(
        "async function called, and awaited elsewhere",
        "# plain\nimport asyncio, torch\nx = torch.ones(2)\nasync def f(k): return x * k",
        "c = f(3)\ny = x + 1\nprint(type(c).__name__)\ny",
        "asyncio.new_event_loop().run_until_complete(c)",
        "def g():\n    return [f(k) for k in range(2)]\nmade = g()\n"
        "[(type(m).__name__, m.close()) for m in made]",
    ),
    case("default argument", "d = 5\ndef f(x=d): return x", "d = 6\nf(), f(1)"),
    case("mutable default", "def f(x, acc=[]):\n    acc.append(x)\n    return acc", "f(1)\nf(2)"),
    case(
        "keyword only and positional only", "def f(a, /, b, *, c): return a, b, c", "f(1, b=2, c=3)"
    ),
    case("wrong arguments", "def f(a): return a", "x = 1\nf()", raises="TypeError"),
    case("lambda", "sq = lambda x: x * x\nsq(4)", "sq.__name__, sq.__qualname__, sq.__module__"),
    case(
        "lambda reads a rebound name",
        "base = 10\nadd = lambda x: x + base\none = add(1)\nbase = 20\ntwo = add(1)\none, two",
        "base = 30\nadd(1)",
    ),
    case("lambda in a sort key", "w = {'a': 2, 'b': 1}\nsorted(w, key=lambda k: w[k])"),
    case("lambda as an argument", "scale = 3\nlist(map(lambda v: v * scale, range(3)))", "scale"),
    case("lambdas late binding", "fs = [lambda: j for j in range(3)]\n[f() for f in fs]"),
    case(
        "lambda in a comprehension reads a global",
        "m = 2\nfs = [lambda x, j=j: x * j * m for j in range(3)]",
        "m = 5\n[f(1) for f in fs]",
    ),
    case("lambda default", "n = 1\nf = lambda a=n: a\nn = 2\nf()"),
    case(
        "closure",
        "def make(n):\n    def add(x): return x + n\n    return add\nadd2 = make(2)",
        "add2(5), add2.__qualname__, add2.__closure__[0].cell_contents",
    ),
    case(
        "closure over a changing local",
        "def outer():\n    v = 1\n    f = lambda: v\n    v = 2\n    return f()\nouter()",
    ),
    case("recursion", "def fact(n): return 1 if n < 2 else n * fact(n - 1)\nfact(20)", "fact(5)"),
    case(
        "recursion redefined",
        "def f(n): return 0 if n == 0 else f(n - 1)\nold = f",
        "def f(n): return 'new'\nold(3)",
    ),
    case(
        "mutual recursion",
        "def even(n): return n == 0 or odd(n - 1)\n"
        "def odd(n): return n != 0 and even(n - 1)\neven(10), odd(10)",
        "odd(7)",
    ),
    case(
        "mutual recursion over cells",
        "def ping(n): return 'end' if n == 0 else pong(n - 1)",
        "def pong(n): return ping(n)",
        "ping(4)",
    ),
    case(
        "too deep a recursion",
        "def f(n): return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError as e:\n"
        "    msg = str(e)\nmsg",
    ),
    case("recursive lambda", "fib = lambda n: n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(12)"),
    case(
        "generator",
        "def gen(n):\n    for i in range(n):\n        yield i * step\nstep = 1\ng = gen(4)\nnext(g)",
        "step = 100\nlist(g)",
    ),
    case(
        "generator half-way",
        "def gen():\n    a = yield 1\n    b = yield a\n    return b\n"
        "g = gen()\nfirst = next(g)\nsecond = g.send('x')",
        "try:\n    g.send('y')\nexcept StopIteration as s:\n    v = s.value\nv",
    ),
    case(
        "generator with finally",
        "def gen():\n    try:\n        yield 1\n    finally:\n        print('closed')\n"
        "g = gen()\nnext(g)",
        "g.close()",
    ),
    case(
        "generator expression consumed later",
        "f = 2\nge = (x * f for x in range(4))\nnext(ge)",
        "f = 10\nlist(ge)",
    ),
    case(
        "generator expression in its own cell",
        "f = 2\nge = (x * f for x in range(4))\na = next(ge)\nf = 5\na, list(ge)",
    ),
    case("generator expression's name", "ge = (i for i in 'ab')\nge.__name__, ge.__qualname__"),
    case(
        "yield from",
        "def inner():\n    yield from 'ab'\ndef outer():\n    yield from inner()\n    yield 1\n"
        "list(outer())",
    ),
    case(
        "async function not awaited",
        "async def co():\n    return k\nimport inspect\ninspect.iscoroutinefunction(co)",
    ),
    case(
        "async run by hand",
        "import asyncio\nasync def co(n):\n    await asyncio.sleep(0)\n    return n + k\nk = 1",
        "loop = asyncio.new_event_loop()\nr = loop.run_until_complete(co(2))\nloop.close()\ndel loop\nr",
    ),
    case(
        "decorator",
        "def twice(f):\n    def g(*a):\n        return f(f(*a))\n    return g\n"
        "@twice\ndef inc(x): return x + by\nby = 1\ninc(0)",
        "by = 10\ninc(0)",
    ),
    case(
        "decorator with functools.wraps",
        """
         import functools
         calls = []
         def logged(tag):
             def deco(f):
                 @functools.wraps(f)
                 def inner(*a, **k):
                     calls.append((tag, f.__name__))
                     return f(*a, **k)
                 return inner
             return deco
         @logged('t')
         def work(x, y=1):
             "documented"
             return x + y
         """,
        "work(1), work(1, y=5), calls, work.__doc__, work.__name__",
    ),
    case(
        "decorator that raises",
        "def bad(f):\n    raise ValueError(f.__name__)\na = 1\n@bad\ndef f(): pass",
        raises="ValueError",
    ),
    case("returns a tuple", "def f(): return 1, 'two', [3]\na, b, c = f()\nc.append(a)\nb, c"),
    case(
        "annotated function",
        "def f(a: int, b: 'str' = '') -> list[int]:\n    x: int = a\n    return [x]",
        "f.__annotations__, f(1)",
    ),
    case("function attributes", "def f(): return f.n\nf.n = 1\nf()", "f.n += 1\nf()"),
    case(
        "function's own looks",
        "def f():\n    'doc'\nf.__name__, f.__qualname__, f.__module__, f.__doc__",
        "f.__globals__ is globals()",
    ),
    case(
        "function's line and source",
        "import inspect\nx = 1\ndef f(a):\n    # a comment\n    return a\n",
        "print(inspect.getsource(f))\ninspect.signature(f)",
    ),
    case(
        "nested functions' names",
        "def a():\n    def b():\n        return lambda: 0\n    return b\na()().__qualname__",
    ),
    case(
        "defined and called between rebindings",
        "t = 1\ndef f(): return t\nx = f()\nt = 2\ndef g(): return t, x\nx = g()\nt = 3\ny = f(), g()\ny",
    ),
    case(
        "context manager of a generator",
        "import contextlib\nlog = []\n@contextlib.contextmanager\ndef cm(n):\n"
        "    log.append(('in', n, tag))\n    yield n\n    log.append(('out', tag))\ntag = 1\n"
        "with cm(5) as v:\n    tag = 2\nlog, v",
    ),
    case(
        "exception in a called function",
        "def inner(x):\n    y = 0\n    return x / y\ndef outer(x):\n"
        "    return inner(x) + 1\na = 1\nouter(a)",
        raises="ZeroDivisionError",
    ),
    case("exception in a lambda", "f = lambda d: d['k']\nx = 1\nf({})", raises="KeyError"),
    case(
        "exception in a generator",
        "def g():\n    yield 1\n    raise OSError('disk')\na = []\nfor v in g():\n    a.append(v)",
        "a",
        raises="OSError",
    ),
    case(
        "exception in a generator expression",
        "d = 0\nlist(1 / d for _ in range(2))",
        raises="ZeroDivisionError",
    ),
    case(
        "exception in a function of an earlier cell",
        "def f(x):\n    return x.nope\n",
        "v = 3\nf(v)",
        raises="AttributeError",
    ),
    case(
        "overloads and stacked decorators",
        "def a(f):\n    print('a')\n    return f\ndef b(f):\n    print('b')\n"
        "    return f\n@a\n@b\ndef f(): return 1\nf()",
    ),
    case(
        "decorator expression reads a name",
        "reg = {}\n@lambda f: reg.setdefault('f', f)\ndef f(): pass",
        "@(lambda f: reg.setdefault(f.__name__, f))\ndef g(): return 1\nlist(reg), g()",
    ),
    case(
        "sort, key and nested scopes",
        "rows = [(2, 'b'), (1, 'c')]\ndef by(i):\n"
        "    return lambda r: (r[i], order)\norder = 1\n[sorted(rows, key=by(i)) for i in range(2)]",
    ),
]
