"""What the notebooks keep of an earlier run says what this version says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import dynamo_ext
from dynamo_ext.widgets.comparison.columns import BY_TITLE

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
REPORT = re.compile(r"(?:optimize|run) · \S+ · Cell In\[\d+\]\n")
PRIVATE = re.compile(r"^\s*(?:from|import)\s+dynamo_ext\.(?!widgets\b)", re.MULTILINE)


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def cells(request):
    found = json.loads(request.param.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def stored(cells):
    outputs = [output for cell in cells for output in cell["outputs"]]
    return ["".join(output.get("data", {}).get("text/plain", "")) for output in outputs]


def test_reports_begin_with_the_three_lines(cells):
    for text in filter(REPORT.match, stored(cells)):
        for line in ("Gain  ", "Cost  ", "Next  "):
            assert re.search(rf"^{line}", text, re.MULTILINE), text[:400]


def test_comparisons_have_todays_columns(cells):
    titles = {column.short or column.title for column in BY_TITLE.values()}
    for text in stored(cells):
        if text.startswith("Comparison"):
            header = next(line for line in text.splitlines() if line.startswith("Candidate"))
            # A title that is too long for its column goes on in the next line.
            for word in re.split(r"\s{2,}", header.strip()):
                assert any(title.startswith(word) for title in ("Candidate", *titles)), word


def test_they_use_what_is_public(cells):
    text = "\n".join("".join(cell["source"]) for cell in cells)
    assert not PRIVATE.search(text)
    named = set(re.findall(r"\bdynamo_ext\.(\w+)", text))
    assert named <= {*dynamo_ext.__all__, "errors", "widgets"}
