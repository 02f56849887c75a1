"""Whole notebooks: how cells are prefixed, and what is compared."""

from __future__ import annotations

import pytest

from benchmarks.notebooks.cells import difference, prefixed, shown
from benchmarks.notebooks.run import execute


def test_cells_are_prefixed():
    assert prefixed("x = 1", "eager", 3) == (
        "%%dynamo -b eager --quiet -o _dynamo_ext_report_3\nx = 1"
    )
    assert prefixed("print('%d' % (\n1))\n\n", "auto", 0).startswith("%%dynamo -b auto")


@pytest.mark.parametrize(
    "text", ["", " \n", "%matplotlib inline", "x = 1\n!ls", "x = !ls", "%%time\nx = 1", "print?"]
)
def test_what_is_empty_or_has_a_magic_stays(text):
    assert prefixed(text, "eager", 0) == text


def test_what_a_cell_shows():
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "\r1 of 2\r2 of 2"},
        {"output_type": "stream", "name": "stderr", "text": "a warning"},
        {"output_type": "stream", "name": "stdout", "text": "\nloss 0.5\r\n"},
        {"output_type": "display_data", "data": {"text/plain": "<Figure>"}},
        {"output_type": "execute_result", "data": {"text/plain": "<A at 0x7f01>"}},
        {"output_type": "error", "ename": "KeyError", "evalue": "'a'"},
    ]
    assert shown(outputs) == "2 of 2\nloss 0.5\n\n<A at 0x>\nraised KeyError: 'a'"


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
    texts = ["x = torch.randn(3)\nx.cos()", "", "1 / 0"]
    texts[0] = f"import torch\n{texts[0]}"
    plain = execute(texts)
    first = execute([prefixed(t, "eager", n) for n, t in enumerate(texts)], "%load_ext dynamo_ext")
    assert plain.texts == first.texts
    assert plain.texts[2].endswith("raised ZeroDivisionError: division by zero")
    assert sorted(first.reports) == ["0", "2"]
    assert len(first.seconds) == 3
