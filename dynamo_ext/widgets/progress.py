"""One line that says how far along something is, and goes away when it is done."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self, TextIO

from dynamo_ext.formatting import clip
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.live import close

PATIENCE = 2.0
"""Seconds of compiling before anything is said: most cells are done by then."""

_PAUSE, _TICK = 0.1, 0.5


class ProgressLine:
    """A progress bar in a notebook, a rewritten line in a terminal, nothing elsewhere.

    At most ten updates a second are shown: each costs time that something else is measured by.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._box: Any = None
        self._handle: Any = None
        self._stream: TextIO | None = None
        self._last = 0.0
        self._started = time.perf_counter()

    def __enter__(self) -> Self:
        from IPython.core.getipython import get_ipython

        shell = get_ipython()
        if shell is not None and getattr(shell, "kernel", None) is not None:
            with contextlib.suppress(ImportError):
                self._show()
        elif sys.stderr.isatty():
            self._stream = sys.stderr
        return self

    def __exit__(self, *_: object) -> None:
        if self._box is not None:
            # A closed widget alone would be an error message in the reopened notebook.
            self._handle.update({"text/html": "", "text/plain": ""}, raw=True)
            close(self._box)
        if self._stream is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def tell(self, words: str, share: float = -1.0) -> None:
        """Say what is going on, and how much of the whole is done (below 0: unknown)."""
        now = time.perf_counter()
        if now - self._last < _PAUSE and share >= 0:
            return
        self._last = now
        said = f"{words} ({now - self._started:.0f} s; interrupt to stop)"
        if self._box is not None:
            bar, label = self._box.children
            label.value = said
            bar.value = max(share, 0.0)
            bar.bar_style = "info" if share >= 0 else ""
        elif self._stream is not None:
            # Of what wraps, only the last line would be cleared.
            line = clip(f"{self._title}: {said}", plain_text.line_width() - 1)
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()

    def _show(self) -> None:
        import ipywidgets as widgets
        from IPython.display import display

        bar = widgets.FloatProgress(min=0.0, max=1.0, description=self._title)
        self._box = widgets.HBox([bar, widgets.Label()])
        self._handle = display(self._box, display_id=True)  # type: ignore[no-untyped-call]


class CompilingLine:
    """A progress line that shows after ``patience`` seconds of compiling.

    A compiler keeps its thread, so another one counts the seconds, from the first compile on.
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
