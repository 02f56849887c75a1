"""A cell that a user runs, with all that is advised on it."""

from __future__ import annotations

import math
from typing import NamedTuple
from unittest import mock

from dynamo_ext.analysis import advice
from tests.capture.live import live

NOTHING = (("captured", "The code is captured", "%%dynamo compare"),)
"""What is said where nothing needs to change."""

BACKWARD = ("break", "`backward()` is called there", "Nothing needs to be done.")


class Cell(NamedTuple):
    """A cell, what ran before it, and the topic of each advice with words of its two sentences."""

    name: str
    setup: str
    cell: str
    told: tuple[tuple[str, str, str], ...] = NOTHING
    line: str = "-b eager"
    runs: int = 1


def check(each: Cell) -> None:
    """Run it, and compare the advice on its last run: what is expected, and no other."""
    # Whether compiling took some seconds is a matter of the machine.
    with live(each.setup) as cells, mock.patch.multiple(advice, COSTLY=math.inf, _MUCH=math.inf):
        for _ in range(each.runs):
            found = advice.advise(cells.report(each.cell, each.line))
    assert [x.topic for x in found] == [topic for topic, _, _ in each.told], found
    for said, (_, problem, step) in zip(found, each.told, strict=True):
        assert problem in said.problem
        assert step in said.step
        assert said.evidence
        # Names of Dynamo's own, hints for torch's developers, and lists that are garbled.
        text = said.problem + said.step
        assert not any(words in text for words in ("___", "PyTorch if you", ",,"))
