"""What candidates reach under the machine's limits, as a chart."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.api.compare import ComparisonResult
from dynamo_ext.errors import OptionError
from dynamo_ext.widgets.comparison import roofline
from dynamo_ext.widgets.comparison.chart import Chart
from tests.widgets.comparison.test_limits import FASTER, record
from tests.widgets.comparisons import NOT_COUNTED, row

LOWERED = dataclasses.replace(row("openvino:bf16", 1e-3, 4.2), precision="bf16")
RECORD = record(FASTER, LOWERED, *NOT_COUNTED)


def test_points_and_roofs() -> None:
    axes = ComparisonResult(RECORD).plot("Roofline")
    roofs = [line for line in axes.get_lines() if line.get_marker() == "None"]
    points = [line.get_xydata()[0] for line in axes.get_lines() if line.get_marker() == "o"]
    # 200 MFLOP over 1 MB, half of that in bf16.
    assert [(round(x), round(y / 1e9)) for x, y in points] == [(200, 48), (200, 80), (400, 200)]
    assert [line.get_ydata().max() for line in roofs] == [1e11, 3e11]
    words = [text.get_text() for text in axes.texts]
    assert words == [
        "float32: 100 GFLOP/s, 10 GB/s",
        "bf16: 300 GFLOP/s, 10 GB/s",
        "eager 48%",
        "openvino 80%",
        "openvino:bf16 67%",
    ]


def test_the_chart_in_words() -> None:
    chart = Chart(RECORD, RECORD.candidates, "Roofline")
    assert "openvino 80 GFLOP/s, 80% of its limit" in chart.alt
    assert "<svg" in str(chart.svg())


def test_without_a_measured_machine_it_says_how_to_get_one() -> None:
    unknown = record(FASTER, machine=None)
    assert roofline.compared(unknown, unknown.candidates) == []
    with pytest.raises(OptionError, match="%dynamo machine measures"):
        ComparisonResult(unknown).plot("Roofline")
    assert "%dynamo machine" in str(Chart(unknown, unknown.candidates, "Roofline").svg())
