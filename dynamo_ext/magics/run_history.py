"""The cells that ran, for ``%dynamo history`` and ``%dynamo diff``."""

from collections import deque
from collections.abc import Sequence

from IPython.core.error import UsageError

from dynamo_ext.magics.argument_errors import refuse
from dynamo_ext.records.report import Report

MOST = 50
"""Records kept: those of large models are a few megabytes each."""


class PastRuns:
    """What the last ``MOST`` cells recorded, oldest first."""

    def __init__(self) -> None:
        self._runs: deque[tuple[int, str | None, Report]] = deque(maxlen=MOST)

    def keep(self, number: int, cell_id: str | None, report: Report) -> None:
        """Add a run: its number as in ``In[7]``, and the front end's id of the cell, if any."""
        self._runs.append((number, cell_id, report))

    def reports(self) -> tuple[Report, ...]:
        """Every record kept."""
        return tuple(report for _, _, report in self._runs)

    def pair(self, words: Sequence[str]) -> tuple[Report, Report]:
        """The two runs to compare: of two cells' numbers, else the last and the one before it.

        That is of the same cell, where it ran twice. Raises ``UsageError`` where there are none.
        """
        if words:
            return self._numbered(words)
        if len(self._runs) < 2:  # noqa: PLR2004 - a pair
            msg = "There is nothing to compare yet: run two %%dynamo cells, or one of them twice."
            raise UsageError(msg)
        *others, (_, cell_id, last) = self._runs
        same = [report for _, of, report in others if of is not None and of == cell_id]
        return (same or [report for _, _, report in others])[-1], last

    def _numbered(self, words: Sequence[str]) -> tuple[Report, Report]:
        bare = [word.removeprefix("In[").removesuffix("]") for word in words]
        if len(bare) != 2 or not all(word.isdecimal() for word in bare):  # noqa: PLR2004
            refuse("diff")
        found = {number: report for number, _, report in self._runs}
        for word in bare:
            if int(word) not in found:
                known = ", ".join(f"In[{number}]" for number in found) or "none yet"
                msg = f"In[{word}] is not a stored %%dynamo run. There are: {known}."
                raise UsageError(msg)
        return found[int(bare[0])], found[int(bare[1])]

    def clear(self) -> None:
        """Forget them all."""
        self._runs.clear()
