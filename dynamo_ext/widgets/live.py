"""Which form of a record a front end gets, and how many live views a session keeps."""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynamo_ext.widgets.html.markup import Markup, element

if TYPE_CHECKING:
    from ipywidgets import Widget

_VIEW = "application/vnd.jupyter.widget-view+json"

# ipywidgets keeps every widget alive until it is closed, so a cell that is run a hundred times
# would keep a hundred views. The oldest are closed, and their static form, which is always in
# the notebook, shows in their place.
MAX_VIEWS = 24

lock = threading.RLock()
"""Held by every callback of a view: they may come on another thread while a cell runs."""

views: deque[View] = deque()
"""The views that live, oldest first."""


class View:
    """What is shown live: a container of widgets that can be closed."""

    widget: Widget

    def close(self) -> None:
        """Close every widget of the view; a notebook then shows its static form."""
        with lock:
            close(self.widget)

    def _repr_mimebundle_(self, **_kwargs: object) -> dict[str, Any]:
        # The widget alone: with text beside it, some front ends would show both.
        return {_VIEW: {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}}


def ipywidgets() -> Any:
    """Import ipywidgets on first use: a session that never shows a widget does not pay for it."""
    return importlib.import_module("ipywidgets")


def framed(*body: object) -> Markup:
    """``body`` under the class that the style sheet keys on."""
    return element("div", *body, class_="dx")


def control(kind: str, description: str, width: str = "", **more: Any) -> Any:
    """A control of ipywidgets whose description has the room that it needs."""
    widgets = ipywidgets()
    style = {} if kind in {"Checkbox", "ToggleButton"} else {"description_width": "initial"}
    layout = {"layout": widgets.Layout(width=width)} if width else {}
    return getattr(widgets, kind)(description=description, style=style, **layout, **more)


def row(*children: Any) -> Any:
    """Controls beside each other, over several lines where the page is narrow."""
    widgets = ipywidgets()
    layout = widgets.Layout(flex_flow="row wrap", grid_gap="4px 14px", align_items="center")
    return widgets.HBox(list(children), layout=layout)


def show(
    text: Callable[[], str], forms: Callable[[], dict[str, str]], build: Callable[[], View]
) -> None:
    """Show a record: its ``text`` in a terminal.

    A notebook gets its static forms by mime type, and the view that ``build`` makes; a style rule
    hides the former while the latter lives, and the widget's error once it does not.
    """
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    if shell is None or getattr(shell, "kernel", None) is None:
        print(text())  # noqa: T201 (the terminal is where this goes)
        return
    display(forms(), raw=True)  # type: ignore[no-untyped-call]
    if importlib.util.find_spec("ipywidgets"):
        view = build()
        with lock:
            views.append(view)
            while len(views) > MAX_VIEWS:
                views.popleft().close()
        display(view._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]


def close(widget: Widget) -> None:
    """Close a widget after those it holds; a container's own close leaves them open."""
    for child in getattr(widget, "children", ()):
        close(child)
    widget.close()
