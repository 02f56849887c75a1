"""One line that says how far along something is, and goes away when it is done."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, Self, TextIO

from dynamo_ext.formatting import clip
from dynamo_ext.widgets import plain_text

_PAUSE = 0.1


class ProgressLine:
    """A progress bar in a notebook, a rewritten line in a terminal, nothing elsewhere.

    ``title`` says what is going on, as a word. At most ten updates a second are passed on: each
    costs time that something else is measured by.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._bar: Any = None
        self._label: Any = None
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
            for widget in (self._bar, self._label, self._box):
                widget.close()
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
            self._label.value = said
            self._bar.value = max(share, 0.0)
            self._bar.bar_style = "info" if share >= 0 else ""
        elif self._stream is not None:
            # Of what wraps, only the last line would be cleared.
            line = clip(f"{self._title}: {said}", plain_text.line_width() - 1)
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()

    def _show(self) -> None:
        import ipywidgets as widgets
        from IPython.display import display

        self._bar = widgets.FloatProgress(min=0.0, max=1.0, description=self._title)
        self._label = widgets.Label()
        self._box = widgets.HBox([self._bar, self._label])
        self._handle = display(self._box, display_id=True)  # type: ignore[no-untyped-call]
