"""Exceptions: what was assigned before stays, and the traceback shows the user's lines."""

from __future__ import annotations

from tests.corpus.case import Case, case

CASES: list[Case] = [
    case(
        "half-way",
        "a = 1\nb = a / 0\nc = 3",
        "a, 'b' in globals(), 'c' in globals()",
        raises="ZeroDivisionError",
    ),
    case(
        "half-way with a rebinding",
        "a = 1",
        "a = 2\na = [a]\nraise RuntimeError('stop')\na = 3",
        "a",
        raises="RuntimeError",
    ),
    case(
        "half-way with a deletion",
        "a = b = 1",
        "del a\nc = b\n[].pop()",
        "'a' in globals(), c",
        raises="IndexError",
    ),
    case(
        "half-way in a loop",
        "out = []\nfor i in range(5):\n    sq = i * i\n    out.append(10 // (2 - i))",
        "i, sq, out",
        raises="ZeroDivisionError",
    ),
    case(
        "half-way in an expression",
        "l = []\nx = [l.append(1), l.append(2), 1 / 0]",
        "l",
        raises="ZeroDivisionError",
    ),
    case(
        "half-way in unpacking",
        "a = 'old'",
        "a, b = 1, 2\nc, d = [1, 2, 3]\n",
        "a, b, 'c' in globals()",
        raises="ValueError",
    ),
    case("half-way in a target", "d = {}\nx = d['a'] = (d['b'], y) = 1, 2", "x, d, y"),
    case(
        "half-way through targets",
        "l = [0]\na = l[5] = b = 1",
        "a, 'b' in globals()",
        raises="IndexError",
    ),
    case(
        "half-way in nested blocks",
        "for i in range(3):\n    with open('/dev/null') as f:\n        v = i\n        if i == 1:\n            raise KeyError(i)",
        "i, v, f.closed",
        raises="KeyError",
    ),
    case("first line", "1 / 0\n", raises="ZeroDivisionError"),
    case(
        "last line of many",
        "\n".join(f"a{i} = {i}" for i in range(12)) + "\na0 / a0 / (a1 - 1)",
        raises="ZeroDivisionError",
    ),
    case("line nine and ten", "\n" * 7 + "b = 1\nb / 0\nc = 2", raises="ZeroDivisionError"),
    case(
        "statement over several lines",
        "x = 0\ny = (\n    1\n    + 2\n    / x\n)\nz = 1",
        raises="ZeroDivisionError",
    ),
    case(
        "call over several lines",
        "def f(a, b):\n    return a[b]\n\nf(\n    [1],\n    5,\n)",
        raises="IndexError",
    ),
    case(
        "after comments and blank lines",
        "# one\n\n# two\na = 1\n\n\n# three\na.nope  # four\n",
        raises="AttributeError",
    ),
    case(
        "inside if, else, for, while",
        "n = 3\nif n > 5:\n    pass\nelse:\n    while n:\n        n -= 1\n        for j in range(n):\n            [1][n]",
        "n, j",
        raises="IndexError",
    ),
    case(
        "in a decorator's call",
        "def deco(f):\n    def g():\n        return f()\n    return g\n\n@deco\ndef bad():\n    return undefined_thing\n\nbad()",
        raises="NameError",
    ),
    case(
        "in a method",
        "class A:\n    def go(self, n):\n        if n == 0:\n            raise LookupError('bottom')\n        return self.go(n - 1)\n\na = A()\na.go(3)",
        raises="LookupError",
    ),
    case(
        "in a property and an operator",
        "class A:\n    @property\n    def p(self): return self.q\n    def __add__(self, o): return o / 0\na = A()\na + 1",
        "a.p",
        raises="ZeroDivisionError AttributeError",
    ),
    case(
        "in a nested comprehension",
        "m = [[1], [2, 'a']]\n[[x + 1 for x in r] for r in m]",
        raises="TypeError",
    ),
    case("in a lambda passed on", "sorted([3, 1], key=lambda v: v['x'])", raises="TypeError"),
    case(
        "in a function defined between",
        "a = 1\ndef f():\n    b = a\n    return b / z\nz = 0\nc = 5\nf()\nd = 6",
        "c, 'd' in globals()",
        raises="ZeroDivisionError",
    ),
    case("in a library", "import json\nbefore = 1\njson.loads('{bad')", raises="JSONDecodeError"),
    case(
        "in a library that calls back",
        "import functools\ndef op(a, b):\n    return a[b]\nfunctools.reduce(op, [[0], 7])",
        raises="IndexError",
    ),
    case("in exec'd text", "exec('a = 1\\nb = a / 0')", "a", raises="ZeroDivisionError"),
    case("in eval'd text", "v = 1\neval('v + missing')", raises="NameError"),
    case(
        "raise from",
        "try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('outer') from e",
        raises="ValueError",
    ),
    case(
        "raise from None",
        "try:\n    {}['k']\nexcept KeyError:\n    raise ValueError('outer') from None",
        raises="ValueError",
    ),
    case(
        "raise while handling",
        "def f():\n    {}['k']\n\ntry:\n    f()\nexcept KeyError:\n    x = 1\n    raise TypeError('second')",
        raises="TypeError",
    ),
    case("raise a class", "raise StopIteration", raises="StopIteration"),
    case(
        "raise with arguments",
        "raise OSError(2, 'No such thing', 'file.txt')",
        raises="FileNotFoundError",
    ),
    case(
        "raise a kept exception",
        "err = ValueError('kept')\ntry:\n    raise err\nexcept ValueError:\n    pass",
        "raise err",
        "err.args",
        raises="ValueError",
    ),
    case(
        "raise with notes",
        "e = RuntimeError('noted')\ne.add_note('look here')\ne.add_note('and there')\nraise e",
        "e.__notes__",
        raises="RuntimeError",
    ),
    case("raise a non-exception", "raise 3", raises="TypeError"),
    case("raise KeyError with quotes", "d = {'a': 1}\nd['it\\'s']", raises="KeyError"),
    case(
        "message of several lines", "raise ValueError('one\\ntwo\\n  three')", raises="ValueError"
    ),
    case(
        "own exception with str",
        "class E(Exception):\n    def __str__(self): return f'E<{self.args[0]}>'\nraise E(5)",
        raises="E",
    ),
    case(
        "exception kept and looked at",
        "try:\n    a = 1\n    a.b\nexcept AttributeError as e:\n    kept = e\nkept.name, kept.obj, kept.__traceback__ is not None",
    ),
    case(
        "line number of a caught exception",
        "import traceback\ntry:\n    a = 1\n    [][0]\nexcept IndexError as e:\n    frame = traceback.extract_tb(e.__traceback__)[-1]\n"
        "    line = frame.line\nframe.name, line",
        "del frame",
    ),
    case(
        "traceback printed by the user",
        "import traceback\ndef f():\n    1 / 0\ntry:\n    f()\nexcept ZeroDivisionError:\n    traceback.print_exc()",
    ),
    case(
        "exc_info",
        "import sys\ntry:\n    int('x')\nexcept ValueError:\n    t, v, _ = sys.exc_info()\n    del _\nt, str(v), sys.exc_info()",
    ),
    case(
        "context cleared",
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass\nraise KeyError('fresh')",
        raises="KeyError",
    ),
    case(
        "an error, then the next cell is clean",
        "1 / 0",
        "raise KeyError('fresh')",
        "x = 1\nx",
        raises="ZeroDivisionError KeyError",
    ),
    case(
        "not implemented and memory",
        "def f(): raise NotImplementedError\ntry:\n    f()\nexcept NotImplementedError as e:\n    r = repr(e)\nr",
    ),
    case("system exit", "a = 1\nraise SystemExit(3)", "a", raises="SystemExit"),
    case("sys.exit with a text", "import sys\nsys.exit('leaving')", raises="SystemExit"),
    case("keyboard interrupt", "a = 1\nraise KeyboardInterrupt", "a", raises="KeyboardInterrupt"),
    case(
        "keyboard interrupt by a signal",
        "import signal\na = [1]\nfor i in range(3):\n    a.append(i)\n    if i == 1: signal.raise_signal(signal.SIGINT)",
        "a, i",
        raises="KeyboardInterrupt",
    ),
    case("stop iteration of next", "it = iter([])\nnext(it)", raises="StopIteration"),
    case(
        "unbound local in a function",
        "def f():\n    print(v)\n    v = 1\nv = 5\nf()",
        raises="UnboundLocalError",
    ),
    case("import error", "a = 1\nimport no_such_module_here", "a", raises="ModuleNotFoundError"),
    case("import of a missing name", "from math import nothing_like_it", raises="ImportError"),
    case(
        "unicode error and type error",
        "'ab' + 1",
        "b'\\xff'.decode()",
        raises="TypeError UnicodeDecodeError",
    ),
    case(
        "exception group",
        "a = 1\nraise ExceptionGroup('many', [ValueError('v'), KeyError('k')])",
        "a",
        raises="ExceptionGroup",
    ),
    case(
        "error in a display",
        "class R:\n    def __repr__(self):\n        raise ValueError('no repr')\nr = R()\nr",
        "1",
    ),
    case(
        "error in str of an exception",
        "class E(Exception):\n    def __str__(self):\n        raise TypeError('no str')\nraise E",
        raises="TypeError",
    ),
    case(
        "error in a finaliser",
        "import sys\nclass F:\n    def __del__(self): log.append('del')\nlog = []\nf = F()\ndel f\nlog",
    ),
    case("error with a long value", "x = 'y' * 300\nint(x)", raises="ValueError"),
    case(
        "error in a cell with a multi-line string",
        "s = '''one\ntwo\n'''\nt = s[100]\n",
        raises="IndexError",
    ),
    case("error in the last expression", "a = 1\na + 'x'", "a", raises="TypeError"),
    case(
        "error in an annotation's value",
        "x: int = int('z')",
        "__annotations__",
        raises="ValueError",
    ),
    case(
        "error in a walrus",
        "(n := 3) + (m := n / 0)",
        "n, 'm' in globals()",
        raises="ZeroDivisionError",
    ),
    case(
        "error in with's enter",
        "class C:\n    def __enter__(self):\n        raise OSError('enter')\n    def __exit__(self, *a): print('never')\na = 1\nwith C() as c:\n    b = 2",
        "a",
        raises="OSError",
    ),
    case(
        "error in a thread",
        "import threading\nr = []\ndef w():\n    try:\n        k / 0\n    except ZeroDivisionError as e:\n        r.append(str(e))\nk = 1\nt = threading.Thread(target=w)\n"
        "t.start(); t.join()\ndel t\nr",
    ),
]
