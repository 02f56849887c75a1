"""Answers about the last report that was asked about: each of its forms asks the same."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from dynamo_ext.records.report import Report

Asked = TypeVar("Asked", bound=Callable[..., Any])


def remembered(function: Asked) -> Asked:
    """Keep what ``function(report, *parts)`` answers, until another report is asked about.

    Texts are compared; graphs by identity, which costs less than comparing records.
    """
    last: tuple[Report | None, dict[tuple[object, ...], tuple[Any, ...]]] = (None, {})

    @functools.wraps(function)
    def answer(report: Report, *parts: Any) -> Any:
        nonlocal last
        # Views ask from other threads: each goes on with the pair that it has read.
        known = last
        if known[0] is not report:
            last = known = (report, {})
        key = tuple(part if isinstance(part, str) else id(part) for part in parts)
        if key not in known[1]:
            # The parts are kept: another object cannot have the identity of one meanwhile.
            known[1][key] = function(report, *parts), parts
        return known[1][key][0]

    return cast("Asked", answer)
