from __future__ import annotations

from dynamo_ext.widgets.html.markup import Markup, details, element, join


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
