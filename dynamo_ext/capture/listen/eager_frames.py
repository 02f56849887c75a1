"""Frames of earlier runs that still run eagerly: Dynamo neither looks at them nor reports them.

A cell that is run again may not reach them any more, since its functions were edited in between.
Code that compiled frames have traced, and what skipped functions call by name, is reached.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import types
    from collections.abc import Collection

    from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog

_ANY = ""


@dataclass
class EagerFrames:
    """What the runs so far left standing.

    Code that Dynamo skips it skips for every backend; a frame that compiled to no graph is
    standing for its own backend alone.
    """

    _entries: dict[tuple[str, str, int, int, str], FrameEntry] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def update(self, run: RunLog, backend: str) -> None:
        """Take over what a run compiled, in place of what was known of the same frames."""
        for key in [key for key, entry in self._entries.items() if entry.code() is None]:
            del self._entries[key]
        for entry in run.compiled:
            place = _place(entry)
            self._entries.pop((*place, _ANY), None)
            self._entries.pop((*place, backend), None)
            if entry.outcome in {"skipped", "failed"}:
                self._entries[*place, _ANY] = entry
            elif not (entry.graphs or entry.outcome == "eager") and (
                entry.breaks or entry.fallbacks
            ):
                self._entries[*place, backend] = entry

    def reachable_from(
        self, run: RunLog, backend: str, roots: Collection[types.CodeType] = ()
    ) -> list[FrameEntry]:
        """Those that a run came by, as far as its compiled code tells.

        ``roots`` is code that the run has called itself, where it is not a cell's.
        """
        called_first = {id(code) for code in roots}
        left = [e for key, e in self._entries.items() if key[-1] in {_ANY, backend}]
        waiting = [*run.compiled, *(graph.frame for graph in run.calls)]
        waiting += [e for e in left if e.file == run.cell_file or id(e.code()) in called_first]
        found = dict.fromkeys(waiting)
        while waiting:
            entry = waiting.pop()
            code = entry.code()
            # Skipped functions are not traced: what they call is known by name alone.
            names = set(code.co_names) if code is not None and entry.outcome == "skipped" else set()
            # What was traced to its end was inlined, and runs nowhere else.
            origins = (
                {*entry.inlined_functions, _origin(entry)}
                if entry.breaks or entry.fallbacks
                else set()
            )
            # A name may have had another function behind it in an earlier run.
            names -= {known.name for known in found}
            called = [
                e for e in left if e not in found and (_origin(e) in origins or e.name in names)
            ]
            found |= dict.fromkeys(called)
            waiting += called
        return [e for e in left if e in found]

    def forget(self, file: str) -> None:
        """Forget those of one file, a cell's that is let go."""
        for key in [key for key, entry in self._entries.items() if entry.file == file]:
            del self._entries[key]

    def clear(self) -> None:
        """Forget them all."""
        self._entries.clear()


PROCESS = EagerFrames()
"""Of all cells and sessions in this process: Dynamo skips a function for every caller."""


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
