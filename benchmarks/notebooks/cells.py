"""The cells of a notebook as they run, and how what they put out is compared."""

from __future__ import annotations

import math
import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from IPython.core.inputtransformer2 import TransformerManager

from benchmarks.first_run.same import numbers_and_words

if TYPE_CHECKING:
    from collections.abc import Sequence

_ADDRESS = re.compile(r"0x[0-9a-f]+")
_CLOSE = 1e-3
"""By how much numbers may differ: they are compared to three digits."""

REPORT = "_dynamo_ext_report_"
"""Starts the names of the reports of cells, by their number."""


def prefixed(text: str, backend: str, number: int) -> str:
    """A cell's text under ``%%dynamo``; what is empty or has a magic of its own stays as it is."""
    transform = TransformerManager()  # type: ignore[no-untyped-call]
    magic = "get_ipython()." in transform.transform_cell(text)
    if magic or not text.strip():
        return text
    return f"%%dynamo -b {backend} --quiet -o {REPORT}{number}\n{text}"


def shown(outputs: Sequence[Any]) -> str:
    """What a cell prints to standard output, evaluates to and raises, without addresses."""
    printed, results = "", []
    for output in outputs:
        if output["output_type"] == "stream" and output["name"] == "stdout":
            printed += output["text"]
        elif output["output_type"] == "execute_result":
            results.append(output["data"].get("text/plain", ""))
        elif output["output_type"] == "error":
            results.append(f"raised {output['ename']}: {output['evalue']}")
    # What follows a carriage return overwrites the line.
    lines = (line.rstrip("\r").rsplit("\r")[-1] for line in printed.split("\n"))
    return _ADDRESS.sub("0x", "\n".join([*lines, *results]))


def difference(found: str, expected: str) -> str:
    """In what a cell's texts differ, in a few words, or nothing."""
    (numbers, words), (others, plain_words) = map(numbers_and_words, (found, expected))
    if words != plain_words:
        lines = zip_longest(found.split("\n"), expected.split("\n"), fillvalue="no line")
        unlike = ((f, e) for f, e in lines if numbers_and_words(f)[1] != numbers_and_words(e)[1])
        # An exception says more than the texts that are missing for it.
        told = min(unlike, key=lambda pair: not pair[0].startswith("raised "))
        return "“{:.100}” instead of “{:.100}”.".format(*told)
    pairs = zip(numbers, others, strict=True)
    unequal = [pair for pair in pairs if not math.isclose(*pair, rel_tol=_CLOSE, abs_tol=1e-6)]
    first = "{:g} instead of {:g}".format(*unequal[0]) if unequal else ""
    return f"{len(unequal)} of {len(numbers)} numbers: first {first}." if unequal else ""
