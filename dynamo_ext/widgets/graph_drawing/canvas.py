"""The window on a drawing: dragged, zoomed by a list or by the wheel, without the kernel."""

from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import Markup, element, quiet_words

_ZOOMS = (25, 50, 75, 100, 150)  # percent
_OWN_SIZE = 100
_HINT = " Drag to move, Ctrl and wheel to zoom."


def canvas(drawn: Markup, label: str) -> Markup:
    """Make a region that shows as much of a drawing as fits, with a list of zooms above it."""
    # What the wheel has zoomed to is the first, and the list's choice then.
    options = [element("option", "", value="1", hidden=""), element("option", "Fit", value="0")]
    options += [
        element("option", f"{each} %", value=each / 100, selected="" if each == _OWN_SIZE else None)
        for each in _ZOOMS
    ]
    select = element("select", *options, onfocus="this.closest('div').onpointerenter?.()")
    zooms = element("label", "Zoom ", select, quiet_words(_HINT))
    script = f"{markup.asset('canvas.js')}(this)"
    window = markup.region(element("div", drawn), label, "dx-canvas")
    return element("div", zooms, window, onpointerenter=script)
