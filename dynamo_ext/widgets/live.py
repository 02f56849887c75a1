"""Which form of a record a front end gets, and how many live views a session keeps."""

from __future__ import annotations

import importlib.util
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ipywidgets import Widget

_VIEW = "application/vnd.jupyter.widget-view+json"

# ipywidgets keeps every widget alive until it is closed, so a cell that is run a hundred times
# would keep a hundred views. The oldest are closed, and their static form, which is always in
# the notebook, shows in their place.
MOST = 24

lock = threading.RLock()
"""Held by every callback of a view: they may come on another thread while a cell runs."""

views: deque[View] = deque()
"""The views that live, oldest first."""


class View(Protocol):
    """What is shown live: a container of widgets that can be closed."""

    widget: Widget

    def close(self) -> None:
        """Close every widget of the view."""


def show(
    text: Callable[[], str],
    bundle: Callable[[], Mapping[str, str]],
    build: Callable[[], View] | None,
) -> None:
    """Show a record wherever this runs.

    In a notebook this emits two outputs, the static form and then the widget alone; a style rule
    hides the static form while the widget lives, and the widget's error once it does not. In a
    terminal it prints the text.

    Parameters
    ----------
    text, bundle
        The record's text, and its static forms by mime type.
    build
        The live view; ``None`` for the static form alone.
    """
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    if shell is None or getattr(shell, "kernel", None) is None:
        print(text())  # noqa: T201 (the terminal is where this goes)
        return
    display(dict(bundle()), raw=True)  # type: ignore[no-untyped-call]
    if build is not None and importlib.util.find_spec("ipywidgets"):
        view = build()
        keep(view)
        display(reference(view), raw=True)  # type: ignore[no-untyped-call]


def reference(view: View) -> dict[str, Any]:
    """Refer to the widget alone: with text beside it, some front ends would show both."""
    return {_VIEW: {"version_major": 2, "version_minor": 0, "model_id": view.widget.model_id}}


def keep(view: View) -> None:
    """Count a view among those that live, and close the oldest beyond ``MOST``."""
    with lock:
        views.append(view)
        while len(views) > MOST:
            views.popleft().close()


def close(widget: Widget) -> None:
    """Close a widget after those it holds; a container's own close leaves them open."""
    for child in getattr(widget, "children", ()):
        close(child)
    widget.close()
