"""Loops, comprehensions, branches, with, match, try: the statements of a cell."""

from __future__ import annotations

from tests.corpus.case import Case, case

CASES: list[Case] = [
    case(
        "for and else", "for i in range(3):\n    if i == 5: break\nelse:\n    done = True\ni, done"
    ),
    case(
        "for, break, else",
        "for i in range(9):\n    if i == 4: break\n    if i % 2: continue\n    print(i, end=' ')\nelse:\n    never = 1\ni",
    ),
    case("while and else", "n = 3\nwhile n:\n    n -= 1\nelse:\n    e = 'else'\nn, e"),
    case(
        "while, break, else",
        "n = 3\nwhile True:\n    n -= 1\n    if n < 0:\n        break\nelse:\n    never = 1\nn",
    ),
    case(
        "nested loops",
        "out = []\nfor a in range(3):\n    for b in range(a):\n        if b == 1: break\n        out.append((a, b))\nout, a, b",
    ),
    case(
        "for over items and attributes",
        "class O: pass\no = O(); d = {}\nfor o.v in range(2): pass\nfor d['k'] in 'ab': pass\n"
        "for x, (y, *z) in [(1, (2, 3, 4))]: pass\no.v, d, x, y, z",
    ),
    case(
        "for over a generator that reads the loop's names",
        "seen = []\ndef g():\n    for _ in range(3):\n        yield len(seen)\n"
        "for s in g():\n    seen.append(s)\nseen",
    ),
    case(
        "list changed while looping",
        "l = [1, 2, 3]\nfor v in l:\n    if v < 3 and len(l) < 6: l.append(v + 10)\nl",
    ),
    case("branches", "x = 7\nif x > 10: r = 'big'\nelif x > 5: r = 'mid'\nelse: r = 'small'\nr"),
    case("conditional expression", "x = 0\n'zero' if not x else 'other'"),
    case("chained comparison", "x = 5\nprint(1 < x <= 5 != 6 > 2)\n1 < (y := x * 2) < 20, y"),
    case(
        "boolean short circuit",
        "def t(n):\n    print(n)\n    return n\nt(0) or t('') or t(3) and t(4)",
    ),
    case(
        "comprehensions",
        "k = 2\n[i * k for i in range(4) if i % 2], {i: k for i in 'ab'}, {k, k + 1}, tuple(i for i in 'xy')",
    ),
    case(
        "nested comprehension",
        "m = [[1, 2], [3, 4]]\n[[row[i] for row in m] for i in range(2)], [x for row in m for x in row]",
    ),
    case("comprehension over its own name", "x = [1, 2]\nx = [x for x in x]\nx"),
    case(
        "comprehension reads names of this and earlier cells",
        "a = 1",
        "b = 2\nc = [a + b + i for i in range(2)]\na = 5\n[a + b + i for i in c]",
    ),
    case(
        "comprehension that calls a function",
        "def f(i): return i + off",
        "off = 1\nx = [f(i) for i in range(2)]\noff = 2\ny = [f(i) for i in range(2)]\nx, y",
    ),
    case(
        "comprehension with an exception",
        "a = 1\nr = [10 // i for i in (2, 1, 0)]",
        "'r' in globals()",
        raises="ZeroDivisionError",
    ),
    case(
        "comprehension in a class and a default",
        "n = 2\nclass A:\n    v = [i * 2 for i in range(3)]\ndef f(a=[n for _ in range(n)]): return a\nA.v, f()",
    ),
    case(
        "try, except, else, finally",
        "log = []\ntry:\n    log.append(1)\nexcept Exception:\n    log.append(2)\nelse:\n    log.append(3)\n"
        "finally:\n    log.append(4)\nlog",
    ),
    case(
        "caught exception",
        "try:\n    x = 1\n    y = x / 0\nexcept (KeyError, ZeroDivisionError) as e:\n    what = type(e).__name__, str(e), e.args\n"
        "finally:\n    z = 3\nwhat, x, 'y' in globals()",
    ),
    case(
        "exception name is deleted",
        "e = 'before'\ntry:\n    1 / 0\nexcept ZeroDivisionError as e:\n    pass\ne",
        raises="NameError",
    ),
    case(
        "finally runs before the error shows",
        "try:\n    a = 1\n    raise ValueError('v')\nfinally:\n    print('finally')\n    b = 2",
        "a, b",
        raises="ValueError",
    ),
    case("exception in finally", "try:\n    1 / 0\nfinally:\n    {}['k']", raises="KeyError"),
    case(
        "exception in except",
        "try:\n    int('a')\nexcept ValueError as e:\n    x = 1\n    y = e.nope",
        "x",
        raises="AttributeError",
    ),
    case(
        "reraise",
        "try:\n    [][1]\nexcept IndexError:\n    seen = True\n    raise",
        "seen",
        raises="IndexError",
    ),
    case(
        "nested try",
        "r = []\nfor k in ('a', 'b', 3):\n    try:\n        try:\n            r.append({'a': 1}[k])\n        except KeyError:\n            r.append(k + '!')\n"
        "    except TypeError as t:\n        r.append(type(t).__name__)\nr",
    ),
    case(
        "except in a loop with continue and break",
        "n = 0\nwhile True:\n    n += 1\n    try:\n        if n < 3: continue\n        break\n    finally:\n        print('f', n)\nn",
    ),
    case(
        "except star",
        "try:\n    raise ExceptionGroup('g', [ValueError(1), TypeError(2), KeyError(3)])\nexcept* ValueError as v:\n    a = v.exceptions[0].args\n"
        "except* (TypeError, KeyError) as t:\n    b = len(t.exceptions)\na, b",
    ),
    case(
        "with",
        "import io\nwith io.StringIO('one\\ntwo') as f, io.StringIO() as g:\n    for line in f:\n        g.write(line.upper())\n    v = g.getvalue()\nv, f.closed",
    ),
    case(
        "with in brackets",
        "import contextlib as c\nwith (c.nullcontext(1) as a, c.nullcontext([2, 3]) as (b, d)):\n    s = a + b + d\ns",
    ),
    case(
        "suppress",
        "import contextlib\nwith contextlib.suppress(KeyError):\n    a = 1\n    {}['x']\n    b = 2\na, 'b' in globals()",
    ),
    case(
        "redirect stdout",
        "import contextlib, io\nbuf = io.StringIO()\nwith contextlib.redirect_stdout(buf):\n    print('inside')\nprint('outside')\nbuf.getvalue()",
    ),
    case(
        "exit stack",
        "import contextlib\nwith contextlib.ExitStack() as st:\n    st.callback(print, 'bye')\n    v = st.enter_context(contextlib.nullcontext(4))\n    print('hi')\nv",
    ),
    case(
        "exception in with",
        "import contextlib\n@contextlib.contextmanager\ndef cm():\n    try:\n        yield\n    except ValueError as e:\n        print('saw', e)\n        raise\n"
        "with cm():\n    a = 1\n    raise ValueError('x')",
        "a",
        raises="ValueError",
    ),
    case(
        "match",
        "def kind(v):\n    match v:\n        case 0 | 1: return 'bit'\n        case [x, *rest] if rest: return x, rest\n        case {'k': w, **more}: return w, more\n"
        "        case str() as s: return s\n        case _: return None\n[kind(v) for v in (1, [1, 2], {'k': 1, 'z': 2}, 'a', 4.0)]",
    ),
    case(
        "match at the top",
        "cmd = ('go', 3, 4)\nmatch cmd:\n    case ('go', n, *others):\n        print('going', n)\n    case _:\n        n = None\nn, others",
    ),
    case(
        "match on a class",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: int\np = P(0, 5)",
        "match p:\n    case P(x=0, y=yy): got = yy\ngot",
    ),
    case("match with no arm", "v = 3\nmatch v:\n    case 4:\n        q = 1\nv"),
    case(
        "slices",
        "l = list(range(10))\nl[2:5] = ['a']\nl[::2], l[-1:], l[slice(1, 3)]",
        "l[:] = []\nl",
    ),
    case(
        "strings and f-strings",
        "n, w = 3.14159, 8\nprint(f'{n:.2f}|{n!r:>{w}}|{{}}|{w=}|{n + w = :.1f}')\nf'''multi\n{w\n}'''",
    ),
    case(
        "f-string with a lambda and a comprehension",
        "k = 2\nf'{(lambda x: x * k)(4)} {[i * k for i in range(2)]}'",
    ),
    case("f-string with an error", "a = 1\nb = f'{a} {nope}'", raises="NameError"),
    case(
        "assert",
        "assert 1 == 1\na = 1\nassert a == 2, f'a is {a}'\nb = 2",
        "'b' in globals()",
        raises="AssertionError",
    ),
    case("assert without a message", "x = []\nassert x", raises="AssertionError"),
    case("pass and ellipsis", "pass\n...\nif True: pass"),
    case(
        "expression statements in the middle",
        "1 + 1\n'unused'\n[print(i) for i in range(2)]\nx = 3\nx",
    ),
    case("expression in a loop is not shown", "for i in range(2):\n    i\nif True:\n    'hidden'"),
    case("only expressions", "1\n2\n3"),
    case("iterators kept", "it = iter([1, 2, 3])\nz = zip('ab', it)\nnext(z)", "list(z), list(it)"),
    case(
        "enumerate and zip unpacking",
        "for n, (a, b) in enumerate(zip('ab', 'cd'), 1):\n    print(n, a, b)\nn, a, b",
    ),
    case(
        "long cell",
        "t = 0\n" + "\n".join(f"v{i} = t + {i}\nt += v{i} % 7" for i in range(150)) + "\nt",
    ),
    case(
        "deep nesting",
        "r = []\nfor a in range(2):\n    if a:\n        while True:\n            with open('/dev/null') as fh:\n                try:\n"
        "                    r.append(a)\n                    break\n                finally:\n                    r.append('f')\nr, fh.closed",
    ),
]
