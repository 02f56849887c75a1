"""Code that looks at the names of running functions, as ``inspect.getargvalues`` does.

Compiled code has names of its own, and after a graph break only those that the rest of it reads.
"""

import dis
import functools
import itertools
import sys
import types
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from dynamo_ext.capture.code.source_lines import is_library
from dynamo_ext.capture.code.tensor_reachability import is_filled, names_read
from dynamo_ext.capture.torch_private import traced_frames

_OF_FRAMES = frozenset({"f_locals", "getargvalues"})
_FRAMES = frozenset({"_getframe", "_current_frames", "currentframe", "f_back"})
_OWN = frozenset({"locals", "vars", "dir", "eval", "exec"})
_OF_PANDAS = frozenset({"DataFrame.query", "DataFrame.eval"})
_MAKE, _CALL = ("__new__", "__init__", "__post_init__"), ("__call__", "forward")
_ENGINES = {"torch", "jax", "jaxlib", "numpy", "tensorflow", "tvm"}
_LEFT_OUT = sys.stdlib_module_names | _ENGINES | {"dynamo_ext", "IPython"}
_INNER = {property: "fget", functools.partial: "func"}
_INNER |= dict.fromkeys((staticmethod, classmethod, types.MethodType), "__func__")


def looker_from(frame: types.FrameType) -> types.CodeType | None:
    """Code that looks at names, among what a frame may run, as far as names lead to it."""
    code = frame.f_code
    if code.co_name != "<module>" and _reads_its_own(code):
        return code
    return _Search(frame.f_globals, *frame.f_locals.values()).looker(code)


def looker_behind(code: types.CodeType, namespace: dict[str, Any]) -> types.CodeType | None:
    """Code that looks at names, if that is what ``code`` gets a frame for.

    Libraries mostly ask for the line or the module that calls them.
    """
    return _Search(namespace).looker(code) if is_library(code.co_filename) else code


def _reads_its_own(code: types.CodeType) -> bool:
    # With an argument, `vars` and `dir` are about that.
    return any(
        step.opname == "LOAD_GLOBAL"
        and step.argval in _OWN
        and (step.argval not in {"vars", "dir"} or after.arg == 0)
        for step, after in itertools.pairwise(dis.get_instructions(code))
    )


class _Search:
    """Follows names through globals, and through the attributes of all that was met by then."""

    def __init__(self, *held: Any) -> None:
        self._codes: list[types.CodeType] = []
        # What has a name in any scope, and was not met by it.
        self._held: defaultdict[str, list[Any]] = defaultdict(list)
        self._met: set[int] = set()
        self._skipped: dict[str, bool] = {}
        for each in held:
            self._meet(each)

    def looker(self, code: types.CodeType) -> types.CodeType | None:
        self._codes.insert(0, code)
        for each in self._codes:
            names = dict.fromkeys(names_read(each)).keys()
            looks = _OF_FRAMES if is_library(each.co_filename) else _OF_FRAMES | _FRAMES
            if names & looks or names >= {"inspect", "stack"} or each.co_qualname in _OF_PANDAS:
                return each
            # Those of a class were met with it.
            for name in (each for each in names if each != "__init__"):
                while held := self._held.pop(name, ()):
                    for value in held:
                        self._meet(value)
        return None

    def _meet(self, value: Any) -> None:
        while type(value) in _INNER:
            value = getattr(value, _INNER[type(value)])
        if id(value) in self._met:
            return
        self._met.add(id(value))
        if type(value) is dict:
            self._hold(value)
        elif type(value) is not types.FunctionType:
            self._meet_object(value)
        elif value.__qualname__ in _OF_PANDAS or not (
            _is_left_out(value.__globals__) or self._is_skipped(value.__code__)
        ):
            self._codes.append(value.__code__)
            self._meet(value.__globals__)
            for cell in filter(is_filled, value.__closure__ or ()):
                self._meet(cell.cell_contents)

    def _is_skipped(self, code: types.CodeType) -> bool:
        if (file := code.co_filename) not in self._skipped:
            self._skipped[file] = traced_frames.is_library_code(code)
        return self._skipped[file]

    def _hold(self, scope: Mapping[str, Any]) -> None:
        for name, value in tuple(scope.items()):
            self._held[name].append(value)

    def _meet_object(self, value: Any) -> None:
        is_class = issubclass(type(value), type)
        if own := traced_frames.attributes(value):
            self._meet(own)
            self._meet(own.get("_modules"))
        for kind in (value if is_class else type(value)).__mro__:
            if not _is_left_out(vars(kind), "__module__"):
                self._hold(vars(kind))
                for name in _MAKE if is_class else _CALL:
                    self._meet(vars(kind).get(name))


def _is_left_out(scope: Mapping[str, Any], name: str = "__name__") -> bool:
    module = scope.get(name)
    return not isinstance(module, str) or module.partition(".")[0] in _LEFT_OUT
