"""Code that looks at the names of running functions, as ``inspect.getargvalues`` does.

Compiled code has names of its own, and after a graph break only those that the rest of it reads.
"""

import dis
import functools
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

from dynamo_ext.capture.cells.tensor_reachability import is_filled, names_read
from dynamo_ext.capture.report.source_lines import is_library
from dynamo_ext.capture.torch_private import frame_eval

_OF_FRAMES = frozenset({"f_locals", "getargvalues"})
_FRAMES = frozenset({"_getframe", "_current_frames", "currentframe", "f_back"})
_OWN = frozenset({"locals", "vars", "dir", "eval", "exec"})
_OF_PANDAS = frozenset({"DataFrame.query", "DataFrame.eval"})
_INNER = {property: "fget", functools.partial: "func"}
_INNER |= dict.fromkeys((staticmethod, classmethod, types.MethodType), "__func__")


def looker_from(frame: types.FrameType) -> types.CodeType | None:
    """Code that looks at names, among what a frame may run, as far as names lead to it."""
    code = frame.f_code
    steps = [*dis.get_instructions(code)]
    for step, after in zip(steps, steps[1:], strict=False):
        # With an argument, `vars` and `dir` are about that.
        own = step.argval in _OWN and (step.argval not in {"vars", "dir"} or after.arg == 0)
        if own and step.opname == "LOAD_GLOBAL" and code.co_name != "<module>":
            return code
    return _search(code, frame.f_globals, frame.f_locals.values())


def looker_behind(code: types.CodeType, namespace: dict[str, Any]) -> types.CodeType | None:
    """Code that looks at names, if that is what ``code`` gets a frame for.

    Libraries mostly ask for the line or the module that calls them.
    """
    return _search(code, namespace) if is_library(code.co_filename) else code


def _search(
    code: types.CodeType, namespace: dict[str, Any], held: Iterable[Any] = ()
) -> types.CodeType | None:
    """Follow names through globals, and through the attributes of all that was met by then."""
    codes, met = [code], set[int]()
    scopes: list[Mapping[str, Any]] = []

    def meet(value: Any) -> None:
        while type(value) in _INNER:
            value = getattr(value, _INNER[type(value)])
        if id(value) in met:
            return
        met.add(id(value))
        is_class = issubclass(type(value), type)
        if type(value) is dict:
            scopes.append(value)
        elif type(value) is not types.FunctionType:
            if own := frame_eval.attributes(value):
                meet(own)
                meet(own.get("_modules"))
            run = _MAKE if is_class else _CALL
            for kind in (value if is_class else type(value)).__mro__:
                if not _is_left_out(vars(kind).get("__module__")):
                    scopes.append(vars(kind))
                    for name in run:
                        meet(vars(kind).get(name))
        elif _is_followed(value):
            codes.append(value.__code__)
            meet(value.__globals__)
            for cell in filter(is_filled, value.__closure__ or ()):
                meet(cell.cell_contents)

    for each in (namespace, *held):
        meet(each)
    for each in codes:
        names = dict.fromkeys(names_read(each)).keys()
        of_frames = _OF_FRAMES if is_library(each.co_filename) else _OF_FRAMES | _FRAMES
        if names & of_frames or names >= {"inspect", "stack"} or each.co_qualname in _OF_PANDAS:
            return each
        for name in names:
            for scope in scopes:
                # Those of a class were met with it.
                if name in scope and name != "__init__":
                    meet(scope[name])
    return None


def _is_followed(function: types.FunctionType) -> bool:
    if function.__qualname__ in _OF_PANDAS:
        return True
    skipped = frame_eval.is_library_code(function.__code__)
    return not (skipped or _is_left_out(function.__globals__.get("__name__")))


def _is_left_out(module: object) -> bool:
    return not isinstance(module, str) or module.partition(".")[0] in _LEFT_OUT


_MAKE, _CALL = ("__new__", "__init__", "__post_init__"), ("__call__", "forward")
_LEFT_OUT = sys.stdlib_module_names | {"torch", "dynamo_ext"}
