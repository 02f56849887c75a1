"""Parts of code after a graph break that hold no graph: compiled twice, they run in Python.

Of ``print("".join([letters[i] for i in tokens.tolist()]))`` the part after ``tolist`` has no tensor
operation. Its guards hold for these numbers alone, so that each run with others compiles it again.
"""

import math
import types
from typing import Any

from torch.utils.weak import WeakIdKeyDictionary

from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog
from dynamo_ext.capture.torch_private import code_cache

_MOST = 2
"""Versions without a graph that are compiled of a part."""

_versions: Any = WeakIdKeyDictionary()
code_cache.learned.append(_versions)


def note(code: types.CodeType, entry: FrameEntry, run: RunLog) -> None:
    """Have the part that was compiled run in Python from now on, where it is one of these."""
    if not run.decides or code_cache.users_code(code) is code:
        return
    known = _versions.get(code, 0)
    _versions[code] = -math.inf if entry.graphs else known + 1
    if _versions[code] == _MOST and not _leads_to_graph(code):
        code_cache.leave_to_python(code)
        run.left[code] = False, None


def _leads_to_graph(code: types.CodeType) -> bool:
    """Whether a later part, which would run in Python with this one, holds a graph."""
    later = code_cache.resuming(code)
    return any(_versions.get(each, 0) < 0 or _leads_to_graph(each) for each in later)
