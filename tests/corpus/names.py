"""Names: bound, rebound, deleted, missing, shadowed, annotated."""

from __future__ import annotations

from tests.corpus.case import Case, case

CASES: list[Case] = [
    case("bind", "x = 1\ny = x + 1"),
    case("rebind", "x = 1", "x = x + 1\nx = x * 10", "x"),
    case("rebind type", "x = 1", "x = [x]\nx = {'x': x}"),
    case("swap", "a, b = 1, 2", "a, b = b, a\n(a, b)"),
    case("chain assignment", "a = b = c = []\nb.append(1)", "a is b is c"),
    case("star unpacking", "first, *rest, last = range(6)\n[*rest, *'ab'], {**{'k': 1}, 'l': 2}"),
    case("nested unpacking", "(a, (b, [c, *d])), e = (1, (2, 'xyz')), 5\na, b, c, d, e"),
    case("unpack into items", "d = {}; l = [0, 0]\nd['k'], l[1], *d['rest'] = 1, 2, 3, 4\nd, l"),
    case("augmented", "x = 1\nx += 2\nx **= 3\nx //= 2\nx ^= 5\nx"),
    case("augmented of an earlier cell", "x = [1]\ny = x", "x += [2]\nx *= 2", "x is y, y"),
    case("augmented of a missing name", "n += 1", raises="NameError"),
    case("augmented after an assignment before the error", "a = 1\nn += a", raises="NameError"),
    case("augmented item", "d = {'a': 1}", "d['a'] += 5\nd['b'] = d['a']\nd"),
    case("augmented attribute", "class O: pass\no = O(); o.n = 1", "o.n += 1\no.n <<= 3\no.n"),
    case("augmented builtin", "len = len\nlen", "max += 1", raises="TypeError"),
    case("missing name", "x", raises="NameError"),
    case("missing name half-way", "a = 1\nb = nope + a\nc = 3", "a", raises="NameError"),
    case("missing name with a suggestion", "length = 3\nlenght + 1", raises="NameError"),
    case("missing name in a function", "def f():\n    return nope\nf()", raises="NameError"),
    case(
        "missing name in a loop",
        "for i in range(3):\n    t = i\n    if i == 2:\n        print(oops)",
        raises="NameError",
    ),
    case("read before it is bound in the cell", "y = later\nlater = 1", raises="NameError"),
    case("read an earlier value, then rebind", "v = 1", "w = v\nv = 2\nw, v"),
    case("bound in one branch", "if False:\n    b = 1\nb", raises="NameError"),
    case("bound in one branch, from an earlier cell", "b = 0", "if False:\n    b = 1\nb"),
    case("delete", "x = 1\ny = 2", "del x\ny"),
    case("delete and read", "x = 1\ndel x\nx", raises="NameError"),
    case("delete twice", "x = 1\ndel x\ndel x", raises="NameError"),
    case("delete a missing name", "del nothing", raises="NameError"),
    case(
        "delete several",
        "a = b = c = 1",
        "del a, (b, c)\nsorted(n for n in 'abc' if n in globals())",
    ),
    case(
        "delete in a loop", "xs = [1, 2]", "for i in range(2):\n    t = xs[i]\n    del t\ndel i\nxs"
    ),
    case(
        "delete items and slices",
        "l = list(range(9)); d = {'a': 1, 'b': 2}",
        "del l[0], l[2:5], d['a']\nl, d",
    ),
    case("delete and bind again", "x = 1", "del x\nx = 2\nx"),
    case(
        "delete, then a function misses it",
        "x = 1\ndef f(): return x",
        "del x",
        "f()",
        raises="NameError",
    ),
    case("delete a builtin's name", "del len", raises="NameError"),
    case("delete attribute", "class O: a = 1\no = O(); o.b = 2", "del o.b, O.a\nhasattr(o, 'a')"),
    case("shadow a builtin", "list = [1, 2]\nlist", "del list\nlist('ab')"),
    case("shadow a builtin, then use it", "sum = sum([1, 2])\nsum", "sum + 1"),
    case(
        "shadow a builtin for a function",
        "def f(): return len('abc')",
        "len = lambda s: -1\nf()",
        "del len\nf()",
    ),
    case("loop variable stays", "for i in range(3): pass\ni", "i += 1\ni"),
    case("loop variable of an empty loop", "for q in []: pass\nq", raises="NameError"),
    case("comprehension variable does not leak", "[k for k in 'ab']\nk", raises="NameError"),
    case(
        "with and except names",
        """
         import contextlib
         with contextlib.nullcontext(5) as w:
             pass
         try:
             1 / 0
         except ZeroDivisionError as e:
             kept = e
         w, 'e' in globals()
         """,
    ),
    case("walrus", "print(n := 10)\n(m := n * 2)"),
    case("walrus in a comprehension", "[last := i for i in range(4)], last", "last"),
    case("walrus in a filter", "out = [y for x in [1, 5, 9] if (y := x * 2) > 5]\nout, y"),
    case("walrus in a while", "it = iter([3, 2, 0, 9])\nwhile (v := next(it)):\n    print(v)\nv"),
    case(
        "walrus in a nested comprehension", "[[z := a * b for a in range(3)] for b in range(2)]\nz"
    ),
    case("walrus in any", "any((hit := n) % 7 == 0 for n in range(5, 30))\nhit"),
    case("global statement at the top", "global g\ng = 5\ng", "g"),
    case(
        "global statement in functions",
        """
         def setter(v):
             global made
             made = v
             return made
         setter(3)
         made += 1
         """,
        "setter(made * 2), made",
    ),
    case(
        "global set by a function, read in the same cell",
        "count = 0\ndef bump():\n    global count\n    count += 1",
        "bump()\na = count\nbump()\nb = count\ncount = 10\nbump()\na, b, count",
    ),
    case(
        "global deleted by a function",
        "v = 1\ndef drop():\n    global v\n    del v",
        "drop()\nv",
        raises="NameError",
    ),
    case(
        "nonlocal",
        """
         def counter():
             n = 0
             def up():
                 nonlocal n
                 n += 1
                 return n
             return up
         c = counter()
         """,
        "[c(), c()]",
        "c.__closure__[0].cell_contents",
    ),
    case("annotation with a value", "x: int = 1\ny: 'list[str]' = []", "__annotations__"),
    case("bare annotation", "q: float\n'q' in globals(), __annotations__"),
    case("bare annotation, then read", "q: float\nq", raises="NameError"),
    case("annotation evaluated", "def ty():\n    print('seen')\n    return int\nz: ty() = 2\nz"),
    case("annotation of a missing type", "a = 1\nx: Missing = 2", "a", raises="NameError"),
    case("annotations over two cells", "a: int = 1", "b: str = 'b'", "__annotations__"),
    case("annotated item", "d = {}\nd['k']: int = 3\n(w): int = 4\nd, w"),
    case("constants", "i, f, c, b, n, e, s = 1, 2.5, 3j, True, None, ..., 'str'\nby = b'bytes'\nf"),
    case("unicode names", "größe = 3\nλ = lambda ñ: ñ * größe\nλ(2)", "ﬁ = 1\nfi"),
    case("underscored names", "_x = 1\n__y = 2\n__z__ = 3\n_x + __y + __z__"),
    case("dunder name and doc", "__name__, __doc__", "__name__ == '__main__'"),
    case("doc rebound", "'a string first'\nx = 1", "__doc__ = 'mine'\n__doc__"),
    case("doc string of a cell", "'''says what it does'''", "__doc__"),
    case("many names", "\n".join(f"n{i} = {i}" for i in range(120)), "n0 + n119"),
    case("name of the magic", "dynamo = 1\ndynamo_ext = 2\ntorch_ = dynamo\ndynamo_ext"),
    case(
        "names that a rewriter might pick",
        "__cell__ = fn = args = result = locals_ = ns = g = 1\n"
        "cell = frame = module = self = 2\n_cell, _out, _locals = 1, 2, 3\ncell",
    ),
]
