"""Code that looks at the names of running functions, as ``inspect.getargvalues`` does.

Compiled code has names of its own, and after a graph break only those that the rest of it reads.
"""

import dis
import functools
import inspect
import sys
import types
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any

from dynamo_ext.capture.cells.tensor_reachability import is_filled, names_read
from dynamo_ext.capture.report.source_lines import is_library
from dynamo_ext.capture.torch_private import frame_eval

GIVE_FRAMES = (sys._getframe, sys._current_frames, inspect.currentframe, inspect.stack)  # noqa: SLF001 - as documented

_OF_FRAMES = frozenset({"f_locals", "getargvalues"})
_OWN = frozenset({"locals", "vars", "dir", "eval", "exec"})
_LEFT_OUT = sys.stdlib_module_names | {"torch", "dynamo_ext"}
_LOOKERS = {"DataFrame.query", "DataFrame.eval"}
_MADE = ("__new__", "__init__", "__post_init__")
_CALLED = ("__call__", "forward")
_WRAPPERS = {staticmethod: "__func__", classmethod: "__func__", types.MethodType: "__func__"}
_WRAPPERS |= {property: "fget", functools.partial: "func"}

_Called = tuple[types.CodeType, ChainMap[str, Any], tuple[Any, ...]]
"""Code, the names of a call and its globals, and what it may have the attributes of."""


def looker_from(frame: types.FrameType) -> types.CodeType | None:
    """Code that looks at names, of what a frame is about to run, as far as names lead to it."""
    code = frame.f_code
    if code.co_name != "<module>" and _asks_for_its_own(code):
        return code
    return _search((code, ChainMap(dict(frame.f_locals), frame.f_globals), ()))


def looker_behind(code: types.CodeType, namespace: dict[str, Any]) -> types.CodeType | None:
    """Code that looks at names, if that is what ``code`` gets a frame for.

    Libraries ask for the line or the module that calls them, as for a warning.
    """
    return _search((code, ChainMap({}, namespace), ())) if is_library(code.co_filename) else code


def _asks_for_its_own(code: types.CodeType) -> bool:
    steps = [*dis.get_instructions(code)]
    return any(
        step.opname == "LOAD_GLOBAL"
        and step.argval in _OWN
        # With an argument, they are about that.
        and (step.argval not in {"vars", "dir"} or after.arg == 0)
        for step, after in zip(steps, steps[1:], strict=False)
    )


def _search(first: _Called) -> types.CodeType | None:
    waiting, seen = [first], set()
    while waiting:
        code, namespace, held = waiting.pop()
        if id(code) in seen:
            continue
        seen.add(id(code))
        names = dict.fromkeys([*namespace.maps[0], *names_read(code)])
        if not _OF_FRAMES.isdisjoint(names) or code.co_qualname in _LOOKERS:
            return code
        places = [((), namespace), ((), sys.modules), *(p for each in held for p in _places(each))]
        found = {}
        for name in names:
            for owner, place in [*places]:
                value = place.get(name)
                if value is not None and id(value) not in found:
                    found[id(value)] = value
                    places += _places(value)
                    waiting += _called(value, (*held, *owner))
        if not is_library(code.co_filename) and not found.keys().isdisjoint(map(id, GIVE_FRAMES)):
            return code
    return None


def _places(value: Any) -> Iterator[tuple[tuple[Any], Mapping[str, Any]]]:
    """Where the attributes of a value are, found without the user's code."""
    holds = issubclass(type(value), (type, types.ModuleType))
    own = vars(value) if holds else frame_eval.attributes(value)
    children = own.get("_modules")
    yield (value,), own
    if type(children) is dict:
        yield (value,), children
    for kind in _kinds(value):
        yield (value,), vars(kind)


def _called(value: Any, held: tuple[Any, ...]) -> Iterator[_Called]:
    """What runs where a value is called or read."""
    while type(value) in _WRAPPERS:
        value = getattr(value, _WRAPPERS[type(value)])
    if type(value) is types.FunctionType:
        skipped = frame_eval.is_library_code(value.__code__)
        if not skipped or (value.__qualname__) in _LOOKERS:
            cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
            own = {name: cell.cell_contents for name, cell in cells if is_filled(cell)}
            yield value.__code__, ChainMap(own, value.__globals__), held
        return
    names = _MADE if issubclass(type(value), type) else _CALLED
    for each in (vars(kind)[name] for kind in _kinds(value) for name in names if name in vars(kind)):
        yield from _called(each, (*held, value))


def _kinds(value: Any) -> list[type]:
    kind = value if issubclass(type(value), type) else type(value)
    return [each for each in kind.__mro__ if not _is_left_out(vars(each).get("__module__"))]


def _is_left_out(module: object) -> bool:
    return not isinstance(module, str) or module.partition(".")[0] in _LEFT_OUT
