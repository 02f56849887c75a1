"""What is drawn by matplotlib: SVG in the theme's colours, PNG where SVG is stripped, or axes."""

from __future__ import annotations

import base64
import importlib.util
import io
import re
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dynamo_ext.errors import OptionError
from dynamo_ext.widgets.html.markup import Markup, element, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MISSING = "Charts need matplotlib: pip install matplotlib"

WIDTH, SQUARE = 6.6, 3.4
"""Inches of a chart, and the height of one with points."""

# Stand-ins: matplotlib writes colours, and these become the theme's own in the SVG.
_TEXT, _QUIET = "#010203", "#040506"
_THEME = {
    _TEXT: "var(--jp-ui-font-color1, currentColor)",
    _QUIET: "var(--jp-ui-font-color2, currentColor)",
}
# Drawing reads matplotlib's global settings.
_lock = threading.Lock()


class Drawn(ABC):
    """A chart as SVG and PNG, or on axes."""

    lack = ""
    """Why there is nothing to draw, if there is nothing."""

    @property
    @abstractmethod
    def alt(self) -> str:
        """The chart in words."""

    @abstractmethod
    def _inches(self) -> tuple[float, float]: ...

    @abstractmethod
    def _draw(self, axes: Axes, text: str, quiet: str) -> None: ...

    def svg(self) -> Markup:
        """The chart for a page that keeps SVG, in the colours of its theme."""
        if problem := self._problem():
            return quiet(problem)
        # Another chart on the page must not have the same ids.
        with _drawing(self.alt), io.StringIO() as out:
            self._figure(_TEXT, _QUIET).savefig(out, format="svg", transparent=True)
            source = out.getvalue()
        return _themed(source, self.alt)

    def png(self) -> Markup:
        """The chart as an image of its own, dark on white whatever the theme is."""
        if problem := self._problem():
            return quiet(problem)
        with _drawing(self.alt), io.BytesIO() as out:
            figure = self._figure("#1f1f1f", "#5f6368")
            figure.savefig(out, format="png", dpi=144, facecolor="white")
            data = base64.b64encode(out.getvalue()).decode("ascii")
        source = f"data:image/png;base64,{data}"
        image = element("img", src=source, alt=self.alt, width=round(WIDTH * 96))
        return element("p", image.removesuffix("</img>"))

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw it on ``axes``, or in a new figure of pyplot's, in the colours of the style in use.

        Raises ``OptionError`` where there is nothing to draw, or matplotlib is not installed.
        """
        if self.lack:
            raise OptionError(self.lack)
        axes = axes or new_axes(*self._inches())
        from matplotlib import rcParams

        self._draw(axes, rcParams["text.color"], rcParams["axes.labelcolor"])
        return axes

    def _problem(self) -> str:
        return self.lack or ("" if importlib.util.find_spec("matplotlib") else MISSING)

    def _figure(self, text: str, quiet: str) -> Figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=self._inches(), layout="constrained")
        self._draw(figure.add_subplot(), text, quiet)
        return figure


def new_axes(wide: float, tall: float) -> Axes:
    """Axes in a new figure of pyplot's, in inches; ``OptionError`` without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        message = "A plot needs matplotlib, which is not installed."
        raise OptionError(message, "pip install matplotlib")
    from matplotlib import pyplot as plt

    return plt.figure(figsize=(wide, tall), layout="constrained").add_subplot()


@contextmanager
def _drawing(salt: str) -> Iterator[None]:
    """Draw with matplotlib's own defaults: a user's style would spoil the contrast."""
    from matplotlib import style

    settings: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": salt}
    with _lock, style.context(["default", settings]), warnings.catch_warnings():
        # A name may hold a letter that the font lacks.
        warnings.simplefilter("ignore")
        yield


def _themed(source: str, alt: str) -> Markup:
    """An SVG for the middle of a page, in the colours of the theme."""
    source = source[source.index("<svg") :]
    source = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", source, flags=re.DOTALL
    )
    # Groups are numbered alike in every chart, and nothing refers to them.
    source = re.sub(r'<g id="[^"]*"', "<g", source)
    source = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font: \1 system-ui, sans-serif", source)
    for colour, themed in _THEME.items():
        source = source.replace(colour, themed)
    opening, _, rest = source.partition(">")
    opening = re.sub(r'(width|height)="[^"]*"', "", opening)
    frame = element("svg", role="img", aria_label=alt, class_="dx-chart")
    drawn = Markup(str(frame)[: -len("></svg>")] + opening.removeprefix("<svg") + ">" + rest)
    return element("div", drawn, class_="dx-wide", tabindex="0", role="group", aria_label="Chart")
