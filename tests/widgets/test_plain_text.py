from __future__ import annotations

import io
import sys

import pytest

from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.report import code, static


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_columns_are_aligned():
    made = plain_text.table(["name", "n"], [["a", "1"], ["bcdefg", "22"]], numeric={1})
    assert made.split("\n") == ["name     n", "──────  ──", "a        1", "bcdefg  22"]


def test_wide_cells_wrap_within_the_width():
    made = plain_text.table(["a", "b"], [["word " * 60, "x" * 300]])
    assert max(len(line) for line in made.split("\n")) <= plain_text.WIDTH
    assert made.count("word") == 60
    assert made.count("x") == 300


def test_line_breaks_in_a_cell_are_kept():
    assert plain_text.table(["a", "b"], [["1\n2", "x"]]).split("\n")[2:] == ["1  x", "2"]


def test_paragraph_wraps_and_strips_control_characters():
    made = plain_text.paragraph("\x1b[1mword\x1b[0m " * 60, "    ", "  - ")
    assert made.startswith("  - word")
    assert "\x1b" not in made
    assert all(len(line) <= plain_text.WIDTH for line in made.split("\n"))


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("60", 60), ("240", plain_text.WIDTH)])
def test_text_fits_the_terminal_that_it_is_for(columns, width, monkeypatch, reports):
    monkeypatch.setenv("COLUMNS", columns)
    assert plain_text.line_width() == plain_text.WIDTH, "what goes into a file is as wide as ever"
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert plain_text.line_width() == width
    shown = [
        plain_text.table(["a", "b"], [["word " * 60, "x" * 300]]),
        plain_text.paragraph("word " * 60),
    ]
    shown += [plain_text.table(["column"] * 9, [["12345.6 ms"] * 9])] if width > 70 else []
    shown += [code.text(reports["mixed"]), static.text(reports["mixed"]) if width > 70 else ""]
    assert max(len(line) for each in shown for line in each.split("\n")) <= width
