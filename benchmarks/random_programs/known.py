"""What is known of differences that are torch's own, by what is seen of them."""

from __future__ import annotations

import re
from typing import NamedTuple


class Known(NamedTuple):
    """A difference that plain ``torch.compile`` has, too.

    Parameters
    ----------
    kind
        As ``judge.difference`` names it; empty for any.
    said
        What its sentence matches.
    what
        In our words.
    issue
        Of PyTorch; 0 where none was found.
    """

    kind: str
    said: str
    what: str
    issue: int = 0


KNOWN = (
    Known("", "ViewMeta sequence", "A view of an input that shares memory with another", 198095),
    Known("", "modified by an inplace operation", "A value that a gradient needs, changed", 185497),
    Known("", "internal overlap|written-to tensor", "A change in overlapping memory", 165409),
    Known(
        "", r"method permute\(", "`x.permute(*range(x.dim() - 1, -1, -1))`: the range's own bounds"
    ),
    Known("", "fake tensor call", "Memory that overlaps, or a shape, is refused while tracing"),
    Known("inputs, raising", "", "What was changed in place before an exception is lost"),
    Known("does not raise", "", "An error of eager's that the compiled code does not have"),
)


def known(kind: str, reason: str) -> Known | None:
    """The first entry that fits, if one does."""
    for each in KNOWN:
        if each.kind in ("", kind) and re.search(each.said, reason):
            return each
    return None
