"""Whole notebooks: cells run under the magic, and what they print is compared."""

from __future__ import annotations

import pytest

from benchmarks.notebooks.cells import difference, prefixed
from benchmarks.notebooks.run import execute


@pytest.mark.parametrize(
    ("found", "expected", "said"),
    [
        ("loss 0.50001", "loss 0.5", ""),
        ("loss 0.6, 1", "loss 0.5, 1", "1 of 2 numbers: first 0.6 instead of 0.5."),
        ("a 1\nb 2", "a 1\nc 2", "“b 2” instead of “c 2”."),
        ("a 1", "a 1\nc 2", "“no line” instead of “c 2”."),
        ("a\nraised E: 1", "a\nb\nc", "“raised E: 1” instead of “b”."),
        ("a\n\nraised E: 1", "a\nb\nc", "“raised E: 1” instead of “c”."),
        ("\nraised KeyError: 'a'", "", "“raised KeyError: 'a'” instead of “no line”."),
    ],
)
def test_in_what_texts_differ(found, expected, said):
    assert difference(found, expected) == said


@pytest.mark.sweep
def test_cells_for_real():
    texts = ["import torch\nx = torch.randn(3)\nx.cos()", "", "1 / 0", "%time y = x + 1"]
    plain = execute(texts)
    first = execute([prefixed(t, "eager", n) for n, t in enumerate(texts)], "%load_ext dynamo_ext")
    assert plain.texts[:3] == first.texts[:3]
    assert plain.texts[2].endswith("raised ZeroDivisionError: division by zero")
    assert sorted(first.reports) == ["0", "2"]
    assert len(first.seconds) == 4
