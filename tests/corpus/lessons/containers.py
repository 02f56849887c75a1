"""Containers that a cell changes in place, of Python's types and of classes derived from them."""

from __future__ import annotations

from tests.corpus.case import Case

_LIST = (
    "v + ['z']",
    "v += ['b']",
    "v *= 2",
    "v.append('b')",
    "v.insert(0, 'z')",
    "v[0:1] = ['x', 'y']",
    "del v[0]",
    "v.sort()",
    "v.clear()",
)
_SET = (
    "v |= {'b', 'd'}",
    "v -= {'a'}",
    "v &= {'b', 'c', 'd'}",
    "v ^= {'c', 'e'}",
    "v.add('q')",
    "v.discard('q')",
    "v.update('xy')",
    "v.difference_update('x')",
    "v.intersection_update('bdy')",
    "v.symmetric_difference_update('bz')",
    "v.clear()",
)
_DICT = (
    "v['b'] = 1",
    "v |= {'d': 4}",
    "v.setdefault('q', 1)",
    "del v['a']",
    "v.popitem()",
    "v.clear()",
)
_QUEUE = ("v.appendleft('z')", "v.rotate(1)", "v[0] = 'q'", "v.popleft()")

_MADE = "# plain\nimport collections, torch\nx = torch.ones(2)\n"


def _case(name: str, made: str, statements: tuple[str, ...], differs: str = "") -> Case:
    """A cell for each statement, between two operations on a tensor."""
    cells = (f"y = x * 2\n{each}\nz = y + 1\nw is v, len(v), list(w), z, w" for each in statements)
    shown = (cell.replace("list(w)", "sorted(w)") for cell in cells) if "set" in name else cells
    return Case(name, (f"{_MADE}{made}\nw = v", *shown), differs=differs)


def _of(name: str, base: str, statements: tuple[str, ...], content: str = "'ac'") -> list[Case]:
    """The cases of a type, and of a class that derives from it."""
    return [
        _case(name, f"v = {base}({content})", statements),
        _case(f"own {name}", f"class V({base}): pass\nv = V({content})", statements),
    ]


CASES = [
    *_of("list", "list", _LIST),
    *_of("set", "set", _SET),
    *_of("dict", "dict", _DICT, "a=0, c=5"),
    *_of("ordered dict", "collections.OrderedDict", (*_DICT, "v.update(a=1, b=2)", "v.move_to_end('a')"), "a=0, c=5"),
    *_of("counter", "collections.Counter", ("v += collections.Counter('ab')", "v['z'] += 1", "v.subtract('a')")),
    *_of("queue", "collections.deque", _QUEUE),
    _case("queue, operators", "v = collections.deque('ac')", ("v += ['b']", "v += ['b']", "v.append('d')\nu = v\nu is v")),
    _case("own queue, operators", "class V(collections.deque): pass\nv = V('ac')", ("v += ['b']", "v *= 2")),
    *_of("bytes", "bytearray", ("v += b'12'", "v.append(3)", "v[0] = 1", "v *= 2"), "b'abc'"),
]  # fmt: skip
