"""Functions of libraries that run in Python, as ``generate`` of transformers does.

In a cell those do, too, that have two graph breaks, and small graphs before them. What such a
function calls of its library runs in Python as well: most of it holds a few operations between
graph breaks. Modules and functions of the user's that it calls are captured. Of a call
``model.generate(ids)``::

    generate                   Python
      _get_logits_processor    Python: generate calls it
      model.forward            captured: it is a module's
      processor(ids, scores)   captured, where its class is the user's

A part of any function after a graph break does, too, that was compiled twice without a graph: that
of ``print([letters[i] for i in ids.tolist()])`` has guards on each number.
"""

import math
import types
from typing import Any

from torch.utils.weak import WeakIdKeyDictionary

from dynamo_ext.capture.code.source_lines import is_library
from dynamo_ext.capture.events.capture_disabled import of_run
from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog
from dynamo_ext.capture.torch_private import code_cache
from dynamo_ext.capture.torch_private.compile_settings import TORCH

# By identity: some code that Dynamo makes has no hash.
_in_python = WeakIdKeyDictionary()
_large = WeakIdKeyDictionary()
breaking = WeakIdKeyDictionary()
"""Of the code of functions that run in Python, that which has two graph breaks."""
_MOST = 2
_versions: Any = WeakIdKeyDictionary()  # how often parts were compiled without a graph
code_cache.learned += _in_python, _large, breaking, _versions


def note(code: types.CodeType) -> None:
    """Have what ``code`` calls of its library run in Python, if ``code`` is a library's."""
    if is_library(code.co_filename):
        _in_python[code_cache.users_code(code)] = True


def follows(code: types.CodeType, caller: types.CodeType) -> bool:
    """Whether ``code`` runs in Python because its ``caller`` does."""
    # A module is called through torch's own code.
    known = code_cache.users_code(caller) in _in_python
    if not known or code.co_name == "forward" or not is_library(code.co_filename):
        return False
    _in_python[code] = True
    code_cache.leave_to_python(code)
    return True


def note_part(code: types.CodeType, entry: FrameEntry, run: RunLog, *, broke: bool) -> None:
    """Have a library's function run in Python where a second part of it, ``code``, broke.

    It does not where one of its parts has a graph that is not small. Of any function, a part that
    was compiled ``_MOST`` times without a graph runs in Python, and what follows it.
    """
    origin = code_cache.users_code(code) or code
    file = origin.co_filename
    if run.decides and is_library(file) and origin.co_name != "forward":
        if not all(graph.is_small for each in entry.graphs if (graph := each())):
            _large[origin] = True
        elif broke and not (origin is code or origin in _large or file.startswith(TORCH)):
            leave(origin)
    if run.decides and origin is not code:
        _versions[code] = -math.inf if entry.graphs else _versions.get(code, 0) + 1
        if _versions[code] == _MOST and not _leads_to_graph(code):
            code_cache.leave_to_python(code)
            run.left[code] = False, None


def _leads_to_graph(code: types.CodeType) -> bool:
    """Whether a later part, which would run in Python with this one, holds a graph."""
    later = code_cache.resuming(code)
    return any(_versions.get(each, 0) < 0 or _leads_to_graph(each) for each in later)


def leave(code: types.CodeType) -> None:
    """Have a function that breaks run in Python."""
    _in_python[code] = breaking[code] = True


def is_left(code: types.CodeType, run: RunLog) -> bool:
    """Whether a function, or a part of it, runs in Python because it breaks, which is recorded."""
    origin = code_cache.users_code(code) or code
    if not run.decides or origin not in breaking:
        return False
    run.left[origin] = False, None
    code_cache.leave_to_python(origin)
    why = f"`{origin.co_qualname}` runs in Python: it has more than one graph break"
    run.fallbacks[of_run(why, "--capture all has it captured.", harmless=True)] = None
    return True
