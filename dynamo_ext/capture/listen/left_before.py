"""Functions that an earlier kernel's runs of a cell left to Python: this one does not capture them.

They are known by their code, so that one that was edited is captured.
"""

import hashlib
import types
from typing import Any

from torch.utils.weak import WeakIdKeyDictionary

from dynamo_ext.capture.code.function_code import codes_within
from dynamo_ext.capture.listen import python_libraries, small_graphs
from dynamo_ext.capture.listen.run_log import RunLog, active_run
from dynamo_ext.capture.torch_private import code_cache, frame_answers
from dynamo_ext.capture.torch_private.patches.loops import python_loops
from dynamo_ext.capture.torch_private.patches.registry import inliners

_LOOP, _BREAKS = (False, ""), (True, "")
"""Of a function whose loops have many turns, and of a library's that ends in graph breaks."""

_PLAIN = {str, int, float, type(None)}


def to_remember(run: RunLog) -> dict[str, tuple[bool, str]]:
    """By digests of their code, functions that are left: whether with what they call, and why."""
    rules = {_digest(code): _LOOP for code in list(python_loops)}
    rules |= {_digest(code): _BREAKS for code in list(python_libraries.breaking)}
    left = {
        _digest(code): (callees, frame.reason)
        for code, (callees, frame) in run.left.items()
        if frame is not None and isinstance(code, types.CodeType)
    }
    return rules | left


def answer(code: types.CodeType, run: RunLog) -> Any:
    """Dynamo's answer for a function that was left, or ``None``; one left by a rule is noted."""
    if (known := _known(code, run)) == _LOOP:
        python_loops[code] = True
    elif known == _BREAKS:
        python_libraries.leave(code)
    if known in ((), _LOOP, _BREAKS):
        return None
    code_cache.leave_to_python(code, callees=known[0])
    small_graphs.note(code, None, known, run)
    return frame_answers.PYTHON_ONCE if known[0] else frame_answers.EAGERLY_ONCE


def _inline(_upstream: Any, _tracer: Any, function: Any, *_: Any, **__: Any) -> None:
    """Note a function with long loops before it is traced within another one."""
    code = function.get_code()
    if (run := active_run()) is not None and _known(code, run) == _LOOP:
        python_loops[code] = True


# Before that which asks whether a function is among them.
inliners.insert(0, _inline)


def _known(code: types.CodeType, run: RunLog) -> Any:
    before = run.left_before()
    return tuple(before.get(_digest(code), ())) if before else ()


# By identity: code that is equal may be of another file. Each run asks for all of it again.
_digests = WeakIdKeyDictionary()


def _digest(code: types.CodeType) -> str:
    """The same in each kernel: a cell's file and the order of a set are not."""
    if code in _digests:
        return str(_digests[code])
    same = [
        (e.co_qualname, e.co_code, e.co_names, [c for c in e.co_consts if type(c) in _PLAIN])
        for e in codes_within(code)
    ]
    digest = _digests[code] = hashlib.sha256(repr(same).encode()).hexdigest()
    return digest
