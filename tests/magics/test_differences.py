"""What compares two sessions passes a magic that runs the cell, and finds one that does not."""

from __future__ import annotations

import re

import pytest

from tests.corpus import THEMES, Case
from tests.magics.differences import differences, refusal, skip_where_python_is_older
from tests.magics.faulty_magics import install_faithful, install_wrapping
from tests.magics.shell import run_case

SAMPLE = [pytest.param(case, id=f"{theme}: {case.name}") for theme, cases in THEMES.items()
          for case in cases if theme.startswith(("names", "errors", "refused"))]  # fmt: skip


@pytest.mark.parametrize("case", SAMPLE)
def test_comparison_is_fair(case: Case) -> None:
    """A magic that only runs the cell passes."""
    skip_where_python_is_older(case)
    plain = run_case(case, magic=False)
    magic = run_case(case, magic=True, install=install_faithful)
    found = refusal(case, plain, magic) if case.refused else differences(case, plain, magic)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("theme", "name", "differs_in"),
    [
        ("names", "missing name", "traceback|outputs"),
        ("names", "augmented of an earlier cell", "exception"),
        ("names", "delete", "exception|names"),
        ("functions", "function sees a rebinding in its own cell", "value"),
        ("functions", "lambda", "__qualname__"),
        ("functions", "closure", "__qualname__"),
        ("classes", "class looks", "__qualname__"),
        ("errors", "half-way", "names"),
        ("library", "locals and globals", "value"),
        ("library", "star import", "exception"),
        ("notebook", "show an int", "_oh"),
        ("tensors", "statement and display", "_oh"),
    ],
)
def test_comparison_bites(theme: str, name: str, differs_in: str) -> None:
    """A magic that wraps the cell in a function fails, and the words say in what."""
    case = next(case for case in THEMES[theme] if case.name == name)
    plain = run_case(case, magic=False)
    found = differences(case, plain, run_case(case, magic=True, install=install_wrapping))
    assert re.search(differs_in, "\n".join(found))
