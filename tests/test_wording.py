from __future__ import annotations

import pytest

from dynamo_ext import wording
from dynamo_ext.records import SourceLine


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0 s"),
        (-1, "0 s"),
        (3e-9, "under 1 µs"),
        (4.2e-6, "4.20 µs"),
        (0.0123, "12.3 ms"),
        (0.456, "456 ms"),
        (1.5, "1.50 s"),
        (59.99, "60.0 s"),
        (61, "1 min 1 s"),
    ],
)
def test_seconds(value, words):
    assert wording.seconds(value) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0%"), (1e-6, "<1%"), (0.004, "<1%"), (0.006, "1%"), (0.5, "50%"), (1, "100%")],
)
def test_a_share_that_is_something_is_not_nothing(share, words):
    assert wording.percent(share) == words


def test_count_and_listing():
    assert wording.count(1, "graph") == "1 graph"
    assert wording.count(1500, "graph") == "1,500 graphs"
    assert wording.count(2, "match", "matches") == "2 matches"
    assert wording.listing([]) == ""
    assert wording.listing(["a"]) == "a"
    assert wording.listing(["a", "b", "c"]) == "a, b and c"


def test_an_article_fits_its_noun():
    nouns = ("int64", "uint8", "float32", "Unit", "object", "unsigned", "union")
    assert [wording.article(noun).split()[0] for noun in nouns] == [
        "an", "a", "a", "a", "an", "an", "a",
    ]  # fmt: skip


def test_sentence_ends_once_and_stays_on_one_line():
    assert wording.sentence("a\n b") == "a b."
    assert wording.sentence("why?") == "why?"
    assert wording.sentence("") == ""


def test_printable_drops_colour_codes():
    assert wording.printable("\x1b[31mred\x1b[0m\a\tx\r\n") == "red\tx\n"


def test_place_names_a_line_as_a_reader_would():
    assert wording.place(None) == ""
    assert wording.place(SourceLine("x.py", 3, in_cell=True)) == "line 3"
    assert wording.place(SourceLine("/a/b/model.py", 3)) == "model.py:3"
    assert wording.place(SourceLine("/tmp/ipykernel_12/345.py", 3)) == "another cell:3"
    assert wording.place(SourceLine("/tmp/ipykernel_12/345.py", 3, cell="In[5]")) == "In[5]:3"


def test_commands_are_told_from_prose():
    assert wording.is_command("pip install x")
    assert not wording.is_command("Install x.")


def test_the_statements_of_a_cell_are_called_the_cell() -> None:
    assert [wording.function_name(name) for name in ("<module>", "forward")] == [
        "the cell",
        "forward",
    ]
