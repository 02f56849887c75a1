from __future__ import annotations

import dataclasses
import re

import pytest

from dynamo_ext.records.capture import Guard
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.report import static
from tests.widgets.conftest import CLEAN

STRIPPED = re.compile(r"<style>.*?</style>|<svg.*?</svg>|var\([^)]*\)", re.DOTALL)


def test_html_is_well_formed_and_reads_without_style(report, page):
    bare = STRIPPED.sub("", static.html(report))
    read = page(bare)
    assert "Graphs" in read.text
    assert "Timing" in read.text
    assert "{" not in bare or report.graphs, "no rule is left behind"


def test_html_has_no_script_svg_or_id(report, page):
    read = page(static.html(report))
    assert not {"script", "svg", "img", "iframe"} & {tag for tag, _ in read.tags}
    assert not read.ids, "two reports on one page would share them"
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on")]


def test_user_text_stays_text(reports, page, rude):
    read = page(static.html(reports["rude"]))
    assert rude in read.text
    assert "script" not in {tag for tag, _ in read.tags}


def test_text_fits_a_terminal_and_has_no_markup(report):
    made = static.text(report)
    assert max(map(len, made.split("\n"))) <= plain_text.WIDTH
    assert "<table" not in made
    assert "</td>" not in made


def test_parts_that_have_nothing_to_say_are_left_out(reports):
    made = static.html(reports["nothing"])
    assert "<b>Guards" not in made
    assert "<b>Fallbacks" not in made
    assert "Fallbacks (" not in static.text(reports["nothing"])


def test_code_and_fallbacks_start_open(reports):
    made = static.html(reports["mixed"])
    assert '<details open=""><summary><b>Code (1 break)' in made
    assert '<details open=""><summary><b>Fallbacks (1)' in made
    assert "<details><summary><b>Guards (40, 2 failed)" in made


@pytest.mark.parametrize("name", static.NAMED)
def test_a_part_by_itself(reports, name, page):
    part = static.ReportPart(reports["mixed"], name)
    assert page(part._repr_html_()).text
    assert repr(part).startswith("cell 4\n\n")


@pytest.mark.parametrize("name", static.NAMED)
def test_an_empty_part_says_so(reports, name, page):
    part = static.ReportPart(reports["nothing"], name)
    assert "No " in page(part.html()).text
    assert "\n\nNo " in part.text()


@pytest.fixture
def large(graph_of):
    """A deep model's report: 4,200 guards of 201 owners, 1,500 operations, 300 more graphs."""
    guards = tuple(
        Guard("0/0", "model", f"L['m'].{'ab'[index % 2]}{index}", "EQUALS_MATCH", expected="1")
        for index in range(3000)
    )
    guards += tuple(
        Guard("0/0", f"name{index // 6}", f"L['n'].a{index}", "EQUALS_MATCH", expected="2")
        for index in range(1200)
    )
    small = [dataclasses.replace(graph_of(30), id=f"g{index}") for index in range(1, 301)]
    made = dataclasses.replace(CLEAN, guards=guards)
    return dataclasses.replace(made, graphs=(graph_of(1500), *small))


def test_a_large_report_adds_at_most_150_kilobytes_and_counts_what_it_leaves_out(large, page):
    made = static.html(large)
    assert len(made.encode()) < 150_000
    read = page(made).text
    for left in ("more operations.", "more guards.", "more graphs."):
        assert left in read
    assert 'dynamo_ext.last_report().save("report.html")' in read
    assert "last_report" not in static.html(CLEAN)


def test_a_page_leaves_nothing_out(large):
    read = static.page(large)
    assert not re.search(r"\d more (?:operations|guards|lines|functions)", read)
    assert read.count("must stay 1.") == 3000


def test_a_part_of_a_large_report_is_as_small(large):
    for name in static.NAMED:
        assert len(static.ReportPart(large, name).html().encode()) < 150_000
