"""Displays that do not reach the front end."""

import contextlib
from collections.abc import Iterator
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

_METHODS = ("publish", "clear_output")


@contextlib.contextmanager
def nothing_displayed() -> Iterator[None]:
    """Drop what is displayed, by any thread, for the length of a ``with`` block.

    The shell keeps its publisher, of which widgets ask more than that of IPython's
    ``capture_output`` can do.
    """
    publisher: Any = InteractiveShell.instance().display_pub
    kept = {name: vars(publisher)[name] for name in _METHODS if name in vars(publisher)}
    vars(publisher).update(dict.fromkeys(_METHODS, lambda *_args, **_kwargs: None))
    try:
        yield
    finally:
        for name in _METHODS:
            vars(publisher).pop(name, None)
        vars(publisher).update(kept)
