"""The plots of the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from benchmarks.plot import Plot, Point

if TYPE_CHECKING:
    from pathlib import Path

PLOT = Plot(
    "speedup over eager",
    [
        Point("auto", "small", 1.0, 0.9, 1.1),
        Point("auto", "large & wide", 4.0, 3.5, 4.5),
        Point("xla", "large & wide", 0.3, 0.2, 0.4),
        Point("xla", "without the leading series", 9.0, 8.0, 10.0),
    ],
)


def _texts(path: Path) -> list[str]:
    tree = ET.parse(path)
    return ["".join(each.itertext()) for each in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_rows_by_the_leading_series_with_a_legend(tmp_path: Path) -> None:
    PLOT.save(tmp_path / "images" / "plot.svg")
    texts = _texts(tmp_path / "images" / "plot.svg")
    assert "speedup over eager" in texts
    assert texts.index("large & wide") < texts.index("small")
    assert {"auto", "xla"} <= set(texts)
    assert texts.index("small") < texts.index("without the leading series")


def test_the_same_points_give_the_same_bytes(tmp_path: Path) -> None:
    PLOT.save(tmp_path / "one.svg")
    PLOT.save(tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_one_series_needs_no_legend(tmp_path: Path) -> None:
    Plot("ratio", [Point("once", "model", 1.02, 1.01, 1.03)]).save(tmp_path / "one.svg")
    texts = _texts(tmp_path / "one.svg")
    assert "once" not in texts
    assert {"ratio", "0.95", "1"} <= set(texts)
