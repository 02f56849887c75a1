"""Names whose absence ended a run: what Dynamo made of them is left out of the record."""

import traceback
from collections.abc import Iterable

from dynamo_ext.capture.events.breaks import MISSING_NAME
from dynamo_ext.capture.listen.run_log import RunLog
from dynamo_ext.capture.torch_private import code_cache
from dynamo_ext.records.capture import GraphBreak


def leave_out_missing_name(run: RunLog, error: BaseException | None) -> bool:
    """Drop what Dynamo recorded of a name whose absence ended the run; whether there was any.

    Eager stops at that name as well: Dynamo split nothing there. Where the code catches the
    ``NameError`` and goes on, the record keeps both.
    """
    name = error.name if isinstance(error, NameError) else None

    def others(breaks: Iterable[GraphBreak]) -> list[GraphBreak]:
        return [b for b in breaks if not name or (b.registry_id, b.name) != (MISSING_NAME, name)]

    found = [*run.condition_breaks] != (kept := others(run.condition_breaks))
    run.condition_breaks = dict.fromkeys(kept)
    for entry in run.compiled:
        if len(kept := others(entry.breaks)) < len(entry.breaks):
            found, entry.breaks = True, kept
            if entry.given_up_by is not None and not others([entry.given_up_by]):
                # The error says it already.
                entry.fallbacks, entry.reason = [], ""
    return found


def forget_on_the_way_to(error: BaseException | None) -> None:
    """Have Dynamo look again at the functions that an error went through: it skips them else."""
    for frame, _ in traceback.walk_tb(error.__traceback__ if error else None):
        code_cache.forget_code(frame.f_code)
