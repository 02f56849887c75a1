"""What is drawn by matplotlib: SVG in the theme's colours, PNG where SVG is stripped, or axes."""

from __future__ import annotations

import importlib.util
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dynamo_ext.errors import OptionError
from dynamo_ext.widgets.html.markup import Markup, element

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MISSING = "Charts need matplotlib: pip install matplotlib"

# Stand-ins: matplotlib writes colours, and these become the theme's own in the SVG.
TEXT, QUIET = "#010203", "#040506"
_THEME = {
    TEXT: "var(--jp-ui-font-color1, currentColor)",
    QUIET: "var(--jp-ui-font-color2, currentColor)",
}
# Drawing reads matplotlib's global settings.
_lock = threading.Lock()


def new_axes(wide: float, tall: float) -> Axes:
    """Axes in a new figure of pyplot's, in inches; ``OptionError`` without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        message = "A plot needs matplotlib, which is not installed."
        raise OptionError(message, "pip install matplotlib")
    from matplotlib import pyplot as plt

    return plt.figure(figsize=(wide, tall), layout="constrained").add_subplot()


def label(
    axes: Axes, place: tuple[float, float], words: str, colour: str, *, left: bool = False
) -> None:
    """Write words beside a place."""
    side: dict[str, Any] = {"xytext": (-8 if left else 8, 0), "ha": "right" if left else "left"}
    look = side | {"va": "center", "fontsize": 9, "annotation_clip": False}
    axes.annotate(words, place, textcoords="offset points", color=colour, parse_math=False, **look)


@contextmanager
def drawing(salt: str) -> Iterator[None]:
    """Draw with matplotlib's own defaults: a user's style would spoil the contrast."""
    from matplotlib import style

    settings: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": salt}
    with _lock, style.context(["default", settings]), warnings.catch_warnings():
        # A name may hold a letter that the font lacks.
        warnings.simplefilter("ignore")
        yield


def themed(source: str, alt: str) -> Markup:
    """An SVG for the middle of a page, in the colours of the theme."""
    source = source[source.index("<svg") :]
    source = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", source, flags=re.DOTALL
    )
    # Groups are numbered alike in every chart, and nothing refers to them.
    source = re.sub(r'<g id="[^"]*"', "<g", source)
    source = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font: \1 system-ui, sans-serif", source)
    for colour, own in _THEME.items():
        source = source.replace(colour, own)
    opening, _, rest = source.partition(">")
    opening = re.sub(r'(width|height)="[^"]*"', "", opening)
    frame = element("svg", role="img", aria_label=alt, class_="dx-chart")
    drawn = Markup(str(frame)[: -len("></svg>")] + opening.removeprefix("<svg") + ">" + rest)
    return element("div", drawn, class_="dx-wide", tabindex="0", role="group", aria_label="Chart")
