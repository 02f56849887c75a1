"""What is being compiled, said once a user has waited for it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from dynamo_ext.widgets.progress import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 2.0
"""Seconds of compiling before anything is said: most cells are done by then."""

_TICK = 0.5


class CompilingLine:
    """A progress line that shows where compiling takes long, and goes when the cell is done.

    A compiler does not give the thread back while it works, so another one counts the seconds; it
    is started by the first compile. The line, which ``line`` makes, shows after ``patience``
    seconds.
    """

    def __init__(
        self, patience: float = PATIENCE, line: Callable[[str], ProgressLine] = ProgressLine
    ) -> None:
        self._patience = patience
        self._line = line
        self._words = ""
        self._since = 0.0
        self._done = threading.Event()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._ticker is not None:
            self._ticker.join()

    def tell(self, words: str) -> None:
        """Take down what is being compiled; an empty text where the cell runs again."""
        if words and not self._words:
            self._since = time.perf_counter()
        self._words = words
        if words and self._ticker is None:
            # Made now, and shown later: its seconds count from here.
            line = self._line("compiling")
            self._ticker = threading.Thread(
                target=self._tick, args=(line,), name="dynamo_ext-compiling"
            )
            self._ticker.start()

    def _tick(self, line: ProgressLine) -> None:
        while not self._words or time.perf_counter() - self._since < self._patience:
            if self._done.wait(min(_TICK, self._patience)):
                return
        with line:
            line.tell(self._words or "running")
            while not self._done.wait(_TICK):
                line.tell(self._words or "running")
