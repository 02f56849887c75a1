from __future__ import annotations

import pytest

from dynamo_ext import formatting
from dynamo_ext.records.common import SourceLine


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
    assert formatting.seconds(value) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0%"), (1e-6, "<1%"), (0.004, "<1%"), (0.006, "1%"), (0.5, "50%"), (1, "100%")],
)
def test_a_share_that_is_something_is_not_nothing(share, words):
    assert formatting.percent(share) == words


def test_count_and_listing():
    assert formatting.count(1, "graph") == "1 graph"
    assert formatting.count(1500, "graph") == "1,500 graphs"
    assert formatting.count(2, "match", "matches") == "2 matches"
    assert formatting.listing([]) == ""
    assert formatting.listing(["a"]) == "a"
    assert formatting.listing(["a", "b", "c"]) == "a, b and c"
    assert formatting.listing(["a", "b", "c"], 3) == "a, b and c"
    assert formatting.listing(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_a_remedy_is_a_sentence_unless_it_is_a_command():
    assert formatting.remedy("Sort it before", "Install: ") == "Sort it before."
    assert formatting.remedy("pip install tvm", "Install: ") == "Install: pip install tvm"
    assert formatting.remedy("") == ""


def test_an_article_fits_its_noun():
    nouns = ("int64", "uint8", "float32", "Unit", "object", "unsigned", "union")
    assert [formatting.article(noun).split()[0] for noun in nouns] == [
        "an", "a", "a", "a", "an", "an", "a",
    ]  # fmt: skip


def test_sentence_ends_once_and_stays_on_one_line():
    assert formatting.sentence("a\n b") == "a b."
    assert formatting.sentence("why?") == "why?"
    assert formatting.sentence("") == ""


def test_printable_drops_colour_codes():
    assert formatting.printable("\x1b[31mred\x1b[0m\a\tx\r\n") == "red\tx\n"


def test_place_names_a_line_as_a_reader_would():
    assert formatting.place(None) == ""
    assert formatting.place(SourceLine("x.py", 3, in_cell=True)) == "line 3"
    assert formatting.place(SourceLine("/a/b/model.py", 3)) == "model.py:3"
    assert formatting.place(SourceLine("/tmp/ipykernel_12/345.py", 3)) == "another cell:3"
    assert formatting.place(SourceLine("/tmp/ipykernel_12/345.py", 3, cell="In[5]")) == "In[5]:3"


def test_commands_are_told_from_prose():
    assert formatting.is_command("pip install x")
    assert not formatting.is_command("Install x.")


def test_the_statements_of_a_cell_are_called_the_cell() -> None:
    assert [formatting.function_name(name) for name in ("<module>", "forward")] == [
        "the cell",
        "forward",
    ]


def test_a_key_in_a_path_is_no_other_keys():
    long = "encoder.layers.0.self_attention.in_proj_"
    assert formatting.step_to("lr", 0) == "['lr']"
    assert formatting.step_to(f"{long}weight", 0) != formatting.step_to(f"{long}bias", 1)
    assert formatting.step_to(object(), 2) == formatting.step_to((1, object()), 2) == "[key 2]"
