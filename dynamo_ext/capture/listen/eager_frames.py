"""Frames of earlier runs that still run eagerly: Dynamo neither looks at them nor reports them.

A run reaches those that its compiled frames have traced, and what skipped functions call by name.
"""

import types
from collections.abc import Iterable

from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog

_ANY = ""

# Of all cells and sessions in this process. Code that Dynamo skips it skips for every backend; a
# frame that compiled to no graph runs eagerly for its own backend alone.
_entries: dict[tuple[str, str, int, int, str], FrameEntry] = {}


def are_known() -> bool:
    """Whether any frame of an earlier run still runs eagerly."""
    return bool(_entries)


def update(run: RunLog, backend: str) -> None:
    """Take over what a run compiled, in place of what was known of the same frames."""
    for key in [key for key, entry in _entries.items() if entry.code() is None]:
        del _entries[key]
    for entry in run.compiled:
        place = _place(entry)
        _entries.pop((*place, _ANY), None)
        _entries.pop((*place, backend), None)
        if entry.outcome in {"skipped", "failed"}:
            _entries[*place, _ANY] = entry
        elif not (entry.graphs or entry.outcome == "eager") and (entry.breaks or entry.fallbacks):
            _entries[*place, backend] = entry


def reachable_from(
    run: RunLog, backend: str, roots: Iterable[types.CodeType] = ()
) -> list[FrameEntry]:
    """Those that a run came by; ``roots`` is code that it called itself, beside a cell's."""
    called_first = {id(code) for code in roots}
    left = [e for key, e in _entries.items() if key[-1] in {_ANY, backend}]
    waiting = [*run.compiled, *(graph.frame for graph in run.calls)]
    waiting += [e for e in left if e.file == run.cell_file or id(e.code()) in called_first]
    found = dict.fromkeys(waiting)
    while waiting:
        entry = waiting.pop()
        code = entry.code()
        # Skipped functions are not traced: what they call is known by name alone.
        names = set(code.co_names) if code is not None and entry.outcome == "skipped" else set()
        # What was traced to its end was inlined, and runs nowhere else.
        ended_early = entry.breaks or entry.fallbacks
        origins = {*entry.inlined_functions, _origin(entry)} if ended_early else set()
        # A name may have had another function behind it in an earlier run.
        names -= {known.name for known in found}
        called = [e for e in left if e not in found and (_origin(e) in origins or e.name in names)]
        found |= dict.fromkeys(called)
        waiting += called
    return [e for e in left if e in found]


def forget(file: str) -> None:
    """Forget those of one file, a cell's that is let go."""
    for key in [key for key, entry in _entries.items() if entry.file == file]:
        del _entries[key]


def clear() -> None:
    """Forget them all."""
    _entries.clear()


def _place(entry: FrameEntry) -> tuple[str, str, int, int]:
    """What a frame has in common with a later one of the same code, or of its function edited."""
    # A cell's own parts have equal names and first lines, and their code lives as long as the text.
    part = id(entry.code()) if entry.name == "<module>" else 0
    return entry.code_name, entry.file, entry.line, part


def _origin(entry: FrameEntry) -> tuple[str, str]:
    """File and qualified name of the user's function that a frame is, or resumes."""
    code = entry.code()
    home = code.co_qualname.rpartition(".")[0] if code is not None else ""
    return entry.file, f"{home}.{entry.name}" if home else entry.name
