from __future__ import annotations

from dynamo_ext.widgets.html.markup import Markup, details, element, join, prose, table


def test_plain_text_is_escaped_and_markup_is_not():
    assert element("p", "<b>", element("i", "&")) == "<p>&lt;b&gt;<i>&amp;</i></p>"


def test_attributes_are_escaped_and_none_is_left_out():
    made = element("a", "x", class_='"><b>', aria_label="y", href=None)
    assert made == '<a class="&#34;&gt;&lt;b&gt;" aria-label="y">x</a>'


def test_formatting_markup_gives_text_that_is_escaped_again():
    assert element("p", f"{Markup('<i>')}") == "<p>&lt;i&gt;</p>"


def test_join_escapes_parts_and_separator():
    assert join(["<", Markup("<br>")], " & ") == "&lt; &amp; <br>"


def test_details_says_how_it_starts():
    assert details("s", "b") == "<details><summary>s</summary>b</details>"
    assert details("s", "b", opened=True).startswith('<details open="">')


def test_table_has_header_cells_and_aligns_numbers(page):
    read = page(table("Times", ["a", "n"], [["<x>", "1"]], numeric={1}))
    heads = [attributes for tag, attributes in read.tags if tag == "th"]
    assert [head["scope"] for head in heads] == ["col", "col"]
    assert heads[0]["style"].startswith("text-align:left")
    assert heads[1]["style"].startswith("text-align:right")
    assert "<x>" in read.text


def test_prose_shows_backticks_as_code():
    assert prose("`<x>` must be `y") == "<code>&lt;x&gt;</code> must be `y"
