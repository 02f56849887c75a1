"""What compares two sessions finds each kind of difference, and says in what it is."""

from __future__ import annotations

import re

import pytest

from tests.corpus.case import Case
from tests.magics.differences import differences
from tests.magics.shell import run_case

INNER = "def g():\n    def f(): pass\n    return f\nf = g()\ndel g"


@pytest.mark.parametrize(
    ("text", "other", "differs_in"),
    [
        ("a = 1", "a = 1", ""),
        ("a = 1", "b = 1", "names"),
        ("a = 1", "a = 2", "a: value"),
        ("a = [1, 2]", "a = [1, 2.0]", "type"),
        ("a = [1]\nb = a", "a = [1]\nb = [1]", "identity"),
        ("def f(): pass", INNER, "__qualname__"),
        ("a = 1\na", "a = 1", "_oh"),
        ("print(1)", "print(2)", "outputs"),
        ("1 / 0", "int('x')", "exception"),
        ("1 / 0", "b = 1; del b\n1 / 0", "outputs"),
        ("import torch\na = torch.ones(2)", "import torch\na = torch.zeros(2)", "a"),
    ],
)
def test_what_differs_is_found(text: str, other: str, differs_in: str) -> None:
    one, two = (Case("", ("import torch", each)) for each in (text, other))
    found = "\n".join(differences(one, run_case(one, magic=False), run_case(two, magic=False)))
    assert re.search(differs_in, found) if differs_in else not found
