from __future__ import annotations

import pytest

from dynamo_ext.widgets.report.single_part import NAMES, ReportPart


@pytest.mark.parametrize("name", NAMES)
def test_a_part_by_itself(reports, name, page):
    part = ReportPart(reports["mixed"], name)
    assert page(part._repr_html_()).text
    assert repr(part).startswith("cell 4\n\n")


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_part_says_so(reports, name, page):
    part = ReportPart(reports["nothing"], name)
    assert "No " in page(part.html()).text
    assert "\n\nNo " in part.text()
