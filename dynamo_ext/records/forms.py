"""What shows a report: the package sets it, since what shows records imports them."""

from collections.abc import Callable
from typing import Any

report: Callable[..., Any]
"""Gives a report as ``html``, ``page``, ``markdown`` or ``text``, or as a ``plot`` on axes."""
