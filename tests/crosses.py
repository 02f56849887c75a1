"""Crosses of many cases with many engines: a share of each, or, before a release, each whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

WHOLE = os.environ.get("DYNAMO_EXT_WHOLE_CROSSES") == "1"
"""`make test-crosses` sets it."""


def share(cases: Iterable[Any], row: int, every: int) -> list[Any]:
    """Each ``every``-th case, begun at another one in each row, so that the rows have all."""
    cases = list(cases)
    return cases if WHOLE else cases[row % every :: every]


def crossed(rows: Iterable[Any], cases: Iterable[Any], every: int = 2) -> list[tuple[Any, Any]]:
    """Each row, as an engine, with its share of the cases."""
    cases = list(cases)
    return [(row, each) for number, row in enumerate(rows) for each in share(cases, number, every)]
