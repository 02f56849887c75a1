from __future__ import annotations

import re
import subprocess
import sys

import pytest

from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.report import static

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


def test_static_forms_import_neither_torch_nor_ipywidgets():
    heavy = "{'torch', 'ipywidgets', 'IPython'} & set(sys.modules)"
    program = f"import sys, dynamo_ext.widgets.report.static, dynamo_ext.widgets.report.view; print({heavy})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


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
