"""Displays that do not reach the front end."""

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from IPython.core.interactiveshell import InteractiveShell


def nothing_displayed() -> AbstractContextManager[Any]:
    """Drop what is displayed, by any thread, for the length of a ``with`` block.

    The shell keeps its publisher, of which widgets ask more than that of IPython's
    ``capture_output`` can do.
    """
    publisher = InteractiveShell.instance().display_pub
    return mock.patch.multiple(
        publisher, publish=lambda *_, **__: None, clear_output=lambda *_, **__: None
    )
