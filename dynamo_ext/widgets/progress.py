"""What a user sees while something takes long: what is done now, and how far each candidate is."""

import math
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Self

from dynamo_ext.formatting import clip, seconds, sentence
from dynamo_ext.records.progress import RaceProgress, Standing
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html.markup import Markup, asset, element

PATIENCE = 2.0
"""Seconds of compiling before anything is said: most cells are done by then."""

LOADING_PATIENCE = 0.2
"""Seconds of loading torch._dynamo before that is said: it takes some seconds, and once."""

_LOOK, _TICK = 0.1, 0.5
_LONG_SAMPLE = 2.0
_LONGEST = 90
_LATE = 3.0
_WORDS = {
    "waiting": "waits",
    "ready": "ready",
    "plain": "running the code as it is",
    "compiling": "compiling",
    "checking": "checking its results",
    "timing": "timing",
    "memory": "measuring memory",
    "graphs": "racing each graph by itself",
    "elsewhere": "in another process",
}
_INTERRUPT = "Interrupt the kernel to stop; what is known by then stays."
_SILENT = (
    "Nothing was heard for 20 s. Either one step takes that long, or the kernel has stopped: then "
    "run the cell again."
)


_STYLE = element("style", asset("waiting.css"))


class Screen:
    """A place in a notebook's output or a line of a terminal; nothing elsewhere.

    What a cell shows may be held back while it is compared, so the place is the one of the moment
    in which this is made.
    """

    def __init__(self) -> None:
        # A script need not load IPython for this.
        shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        notebook = getattr(shell, "kernel", None) is not None
        self._publish = shell.display_pub.publish if notebook else None
        self._terminal = None if notebook or not sys.stderr.isatty() else sys.stderr
        self._id: dict[str, str] = {}

    def show(self, html: str, text: str) -> None:
        """Put something in the place of what was there."""
        if self._publish is not None:
            shown = bool(self._id)
            self._id = self._id or {"display_id": uuid.uuid4().hex}
            bundle = {"text/html": html, "text/plain": text}
            self._publish(bundle, transient=self._id, update=shown)
        if self._terminal is not None:
            # Of what wraps, only the last line would be cleared.
            line = clip(text, plain_text.line_width() - 1) if text else ""
            self._terminal.write(f"\r\x1b[K{line}")
            self._terminal.flush()


class Waiting:
    """Says what is going on once that takes ``patience`` seconds, until it is left.

    A compiler keeps its thread, so another one shows the seconds. While candidates are timed, that
    one is silent, and ``show`` itself puts up what it gets, between two samples. ``spent`` gives
    the seconds of compiling so far, and how many there are.
    """

    def __init__(self, title: str, patience: float = PATIENCE) -> None:
        self._title = title
        self._patience = self._usual = patience
        self._screen = Screen()
        self.spent: Callable[[], tuple[float, float]] = lambda: (0.0, math.inf)
        self._words = ""
        self._told: dict[str, tuple[RaceProgress, float]] = {}
        self._since = self._last = 0.0
        self._phase = self._subject = ""
        self._shown = False
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._ticker is not None:
            self._ticker.join()
            self._ticker = None
        if self._shown:
            self._shown = False
            self._screen.show("", "")

    def tell(self, words: str, patience: float | None = None) -> None:
        """Take down what is being compiled; an empty text where the cell runs again."""
        self._phase = ""
        self._begin(words, patience)

    def show(self, progress: RaceProgress) -> None:
        """Take down how far the candidates of a comparison or a race are."""
        with self._lock:
            self._told[progress.subject] = progress, time.perf_counter()
        self._phase, self._subject = progress.phase, progress.subject
        self._begin(self._words or "running")
        if self._phase == "timing" and self._shown and time.perf_counter() - self._last >= _TICK:
            self._render()

    def announce(self, words: str) -> None:
        """Print a line that stays."""
        with self._lock:
            if self._shown:
                self._screen.show("", "")
            print(words, flush=True)  # noqa: T201 - a magic's answer goes to stdout

    def _begin(self, words: str, patience: float | None = None) -> None:
        if words and not self._words and not self._shown:
            self._since = time.perf_counter()
            self._patience = self._usual if patience is None else patience
        self._words = words
        if words and self._ticker is None and not self._done.is_set():
            self._ticker = threading.Thread(target=self._tick, name="dynamo_ext-waiting")
            self._ticker.start()

    def _tick(self) -> None:
        while not self._words or time.perf_counter() - self._since < self._patience:
            if self._done.wait(_LOOK):
                return
        self._shown = True
        while True:
            if self._phase != "timing" or time.perf_counter() - self._last >= _LONG_SAMPLE:
                self._render()
            if self._done.wait(_TICK):
                return

    def _render(self) -> None:
        with self._lock:
            now = self._last = time.perf_counter()
            # The whole code, and the graph of it that was reported last.
            subjects = dict.fromkeys(["", self._subject]) if self._phase else {}
            current = [self._told[each][0] for each in subjects if each in self._told]
            tables = [[_row(one, each) for one in each.standings] for each in current]
            title = "Racing" if current and current[0].subject else self._title
            doing = "; ".join(map(_doing, current)) or self._words or "running"
            spent, limit = self.spent()
            took = f"{now - self._since:.0f} s so far{self._time_left(now)}."
            if limit < math.inf:
                took = f"{spent:.0f} of {limit:g} s, then the cell goes on in plain Python."
            html = element(
                "div",
                _STYLE,
                element("p", element("b", title), f" {sentence(doing)} ", element("span", took)),
                *(element("table", element("tbody", *rows)) for rows in tables if rows),
                element("p", _INTERRUPT, class_="dx-quiet"),
                element("p", _SILENT, class_="dx-silent"),
                class_="dx-waiting",
            )
            self._screen.show(html, f"{title}: {sentence(doing)} {took}")

    def _time_left(self, now: float) -> str:
        progress, at = self._told.get("", self._told.get(self._subject, (None, now)))
        if not self._phase or progress is None or progress.left is None:
            return ""
        left = at + progress.left - now
        return f", about {max(left, 1):.0f} s left" if left > -_LATE else ", longer than estimated"


def _doing(progress: RaceProgress) -> str:
    if progress.doing:
        return progress.doing
    said = _WORDS[progress.phase]
    if progress.phase == "timing":
        of = f" of {progress.rounds}" if progress.rounds else ""
        said = f"timing, round {progress.round}{of}" if progress.round else "warming up"
    whose = " ".join(filter(None, [progress.subject, progress.candidate]))
    return f"{whose}: {said}" if whose else said


def _row(standing: Standing, progress: RaceProgress) -> Markup:
    turn = standing.name == progress.candidate and progress.phase != "timing"
    said = _WORDS.get(progress.phase if turn else standing.state, "")
    if standing.state == "out":
        said = clip(standing.reason, _LONGEST)
    elif standing.median and not turn:
        said = "being timed" if progress.phase == "timing" else "timed"
    call = f"{seconds(standing.median)} a call" if standing.median else ""
    name = element("b", standing.name) if turn else standing.name
    return element("tr", element("th", name, scope="row"), element("td", said), element("td", call))
