"""Reports as Markdown and as files."""

from __future__ import annotations

import dataclasses
import json

import pytest

from dynamo_ext.errors import OptionError
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.report import fallbacks, static


def test_it_has_the_verdict_code_breaks_failed_guards_fallbacks_and_versions(reports):
    report = reports["mixed"]
    made = report.to_markdown()
    assert made.startswith(f"### {static.title(report)}\n\n```text\n")
    titles = [line for line in made.splitlines() if line.startswith("####")]
    assert titles == ["#### Code", "#### Guards that failed", "#### Fallbacks"]
    assert "What helps" not in made
    assert "→" in made
    for name, version in report.versions:
        assert f"{name} {version}" in made.splitlines()[-1]


def test_it_is_short_and_says_what_it_leaves_out(reports):
    report = reports["mixed"]
    one = report.fallbacks[0]
    many = tuple(dataclasses.replace(one, message=f"reason {n}") for n in range(100))
    made = dataclasses.replace(report, fallbacks=many).to_markdown()
    assert len(made.splitlines()) < 250
    assert made.count("… ") == 1
    assert "more lines\n```" in made or "lines more\n```" in made


def test_fences_in_a_message_end_no_fence(reports):
    report = reports["mixed"]
    one = dataclasses.replace(report.fallbacks[0], message="```\n<b>no</b>")
    made = dataclasses.replace(report, fallbacks=(one,)).to_markdown()
    assert "````text" in made


def test_what_has_nothing_to_show_is_left_out(reports):
    assert "Fallbacks\n" not in static.markdown(reports["clean"])


def test_it_is_saved_in_each_form(reports, tmp_path):
    report = reports["mixed"]
    page = report.save(tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert '<meta charset="utf-8">' in page
    assert "Graph breaks" in page
    saved = report.save(tmp_path / "r.json").read_text(encoding="utf-8")
    assert Report.from_dict(json.loads(saved)) == report
    assert report.save(tmp_path / "r.md").read_text(encoding="utf-8") == report.to_markdown()
    assert report.save(tmp_path / "r.txt").read_text(encoding="utf-8") == static.text(report)
    with pytest.raises(OptionError, match=r"cannot be saved as \.doc\. Use \.html, \.json"):
        report.save(tmp_path / "r.doc")


def test_what_fell_back_alike_is_one_row(reports, page):
    report = reports["mixed"]
    one = report.fallbacks[0]
    alike = tuple(dataclasses.replace(one, subject=f"g{n}", count=2) for n in range(3))
    report = dataclasses.replace(report, fallbacks=alike)
    for said in (page(fallbacks.html(report)).text, fallbacks.text(report)):
        assert f"{one.scope}s g0, g1 and g2" in said
        assert "6" in said
    assert fallbacks.html(report).count("<tr") == 2


def test_a_report_is_html_to_any_front_end(reports):
    report = reports["mixed"]
    assert report._repr_html_() == static.html(report)
