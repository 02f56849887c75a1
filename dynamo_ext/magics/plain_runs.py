"""How long cells took that ran without ``%%dynamo``, by their text."""

import time
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from dynamo_ext.records.comparison import BUSY_CORES
from dynamo_ext.timing.machine_load import MachineLoad

_TEXTS, _RUNS = 200, 9
"""What is kept: texts, and of each its last runs."""


class PlainRuns:
    """Times the cells of a shell from now on, by IPython's events.

    Those that raise do not count, nor do those beside which other programs kept the machine busy.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._seconds: dict[str, list[float]] = {}
        self._started: list[tuple[float, MachineLoad]] = []
        self._events: Any = shell.events
        self._events.register("pre_run_cell", self._begin)
        self._events.register("post_run_cell", self._end)

    def of_text(self, text: str) -> tuple[float, ...]:
        """Seconds of the plain runs of a cell of this text, oldest first."""
        return tuple(self._seconds.get(text.strip(), ()))

    def close(self) -> None:
        """Time no more cells."""
        self._events.unregister("pre_run_cell", self._begin)
        self._events.unregister("post_run_cell", self._end)

    def _begin(self, _info: Any) -> None:
        # A cell may run another one.
        self._started.append((time.perf_counter(), MachineLoad().__enter__()))

    def _end(self, result: Any) -> None:
        if not self._started:
            # It is the cell that loaded the extension.
            return
        started, company = self._started.pop()
        took = time.perf_counter() - started
        company.__exit__()
        text = (result.info.raw_cell or "").strip()
        if not result.success or text.startswith("%%") or company.cores >= BUSY_CORES:
            return
        runs = [*self._seconds.pop(text, ()), took]
        self._seconds[text] = runs[-_RUNS:]
        if len(self._seconds) > _TEXTS:
            del self._seconds[next(iter(self._seconds))]
