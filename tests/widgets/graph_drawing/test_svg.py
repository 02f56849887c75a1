"""A drawing's edges: upright beside the boxes that they pass."""

from __future__ import annotations

import re

from dynamo_ext.widgets.graph_drawing.layout import BOX_HEIGHT, BOX_WIDTH, arrange
from dynamo_ext.widgets.graph_drawing.svg import _curve

NUMBER = re.compile(r"([MCV])([^MCV]*)")
ATTENTION = {
    "keys": [],
    "queries": [],
    "turned": ["keys"],
    "also": ["queries"],
    "scores": ["turned", "queries"],
    "gram": ["queries", "also"],
    "scaled": ["scores"],
    "softmax": ["scaled"],
    "output": ["softmax", "gram"],
}


def points(path: str) -> list[tuple[float, float]]:
    """Points along a path, close together."""
    at, found = (0.0, 0.0), []
    for letter, text in NUMBER.findall(path):
        numbers = [float(number) for number in text.split()]
        if letter == "M":
            found.append((numbers[0], numbers[1]))
        elif letter == "V":
            found += [(at[0], at[1] + (numbers[0] - at[1]) * step / 20) for step in range(1, 21)]
        else:
            ends = [at, *zip(numbers[::2], numbers[1::2], strict=True)]
            for step in range(1, 21):
                t = step / 20
                weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
                x, y = (sum(w * e[i] for w, e in zip(weights, ends, strict=True)) for i in (0, 1))
                found.append((x, y))
        at = found[-1]
    return found


def test_no_edge_passes_under_a_box() -> None:
    laid = arrange(list(ATTENTION), ATTENTION)
    passed = [points(_curve(edge)) for edge in laid.edges if len(edge) > 2]
    assert len(passed) == 3
    for x, y in (point for path in passed for point in path):
        for centre_x, centre_y in laid.boxes.values():
            beside = abs(x - centre_x) >= BOX_WIDTH / 2
            assert beside or abs(y - centre_y) >= BOX_HEIGHT / 2 - 1
