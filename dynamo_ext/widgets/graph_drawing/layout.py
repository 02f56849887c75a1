"""A layered drawing's coordinates: rows by depth, few crossings, short straight edges.

Longest-path layers, barycentre sweeps, then weighted isotonic regression in each row. 1,500
operations take about a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any

BOX_WIDTH, BOX_HEIGHT = 168, 36
_ROW, _COLUMN, _LANE = 62, 186, 16
# An edge over more rows is drawn straight: its lane would cost more than it shows.
_LONGEST_LANE = 60
_STRAIGHT = 4.0  # weight of a bend for each row that its edge goes down; a box weighs 1
_SWEEPS = 4


@dataclass
class _Point:
    """A box, or a bend of an edge that passes a row.

    Bends of longer edges weigh more, so that a residual stream runs straight.
    """

    row: int
    box: bool
    above: list[_Point] = field(default_factory=list)
    below: list[_Point] = field(default_factory=list)
    x: float = 0.0
    order: float = 0.0
    weight: float = 1.0


@dataclass(frozen=True)
class Layout:
    """Centres of boxes by name, the points of each edge from top to bottom, and the size."""

    boxes: Mapping[str, tuple[float, float]]
    edges: Sequence[Sequence[tuple[float, float]]]
    width: float
    height: float


def arrange(nodes: Sequence[str], inputs: Mapping[str, Sequence[str]]) -> Layout:
    """Place ``nodes``, one or more in the order they run, under those that ``inputs`` names."""
    depth = _depths(nodes, inputs)
    points = {name: _Point(depth[name], box=True) for name in nodes}
    rows: list[list[_Point]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in nodes:
        rows[depth[name]].append(points[name])
    paths = [
        _route(points[source], points[name], rows) for name in nodes for source in inputs[name]
    ]
    _order(rows)
    _spread(rows)
    left = min(point.x for row in rows for point in row) - BOX_WIDTH / 2 - 12
    right = max(point.x for row in rows for point in row) + BOX_WIDTH / 2 + 12

    def at(point: _Point) -> tuple[float, float]:
        return point.x - left, point.row * _ROW + BOX_HEIGHT / 2 + 12

    return Layout(
        {name: at(point) for name, point in points.items()},
        [[at(point) for point in path] for path in paths],
        right - left,
        (len(rows) - 1) * _ROW + BOX_HEIGHT + 24,
    )


def _depths(nodes: Sequence[str], inputs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """One row below the deepest input; what has no input is right above its first user."""
    depth: dict[str, int] = {}
    users: dict[str, list[str]] = {}
    for name in nodes:
        depth[name] = max((depth[source] + 1 for source in inputs[name]), default=0)
        for source in inputs[name]:
            users.setdefault(source, []).append(name)
    for name in nodes:
        if not inputs[name] and name in users:
            depth[name] = max(min(depth[user] for user in users[name]) - 1, 0)
    return depth


def _route(source: _Point, target: _Point, rows: list[list[_Point]]) -> list[_Point]:
    """List the edge's points: one bend in each row that it passes."""
    path = [source]
    if target.row - source.row <= _LONGEST_LANE:
        for row in range(source.row + 1, target.row):
            bend = _Point(row, box=False, weight=_STRAIGHT * (target.row - source.row))
            rows[row].append(bend)
            path.append(bend)
    path.append(target)
    for upper, lower in pairwise(path):
        upper.below.append(lower)
        lower.above.append(upper)
    return path


def _order(rows: list[list[_Point]]) -> None:
    """Sort each row by the mean place of its neighbours, downwards and upwards."""
    for row in rows:
        _number(row)
    for row, side in _sweeps(rows):
        for point in row:
            if near := side(point):
                point.order = sum(other.order for other in near) / len(near)
        row.sort(key=lambda point: point.order)
        _number(row)


def _sweeps(rows: list[list[_Point]]) -> Iterator[tuple[list[_Point], Callable[..., Any]]]:
    """Go through the rows downwards and upwards, each with what gives a point's neighbours."""
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            yield row, attrgetter("above" if down else "below")


def _number(row: list[_Point]) -> None:
    for index, point in enumerate(row):
        point.order = index / len(row) if len(row) > 1 else 0.5


def _spread(rows: list[list[_Point]]) -> None:
    """Give each point its x, near its neighbours'."""
    for row in rows:
        for point, offset in zip(row, _offsets(row), strict=True):
            point.x = offset
    for row, side in _sweeps(rows):
        offsets, wanted = _offsets(row), []
        for point, offset in zip(row, offsets, strict=True):
            near = side(point) or [point]
            whole = sum(other.weight for other in near)
            wanted.append(sum(other.x * other.weight for other in near) / whole - offset)
        nearest = _isotonic(wanted, [point.weight for point in row])
        for point, x, offset in zip(row, nearest, offsets, strict=True):
            point.x = x + offset


def _offsets(row: list[_Point]) -> list[float]:
    """Compute the least x of each point after the first, given the room that each one needs."""
    offsets = [0.0][: len(row)]
    for before, point in pairwise(row):
        room = _COLUMN if before.box and point.box else _LANE
        offsets.append(offsets[-1] + room + (before.box != point.box) * BOX_WIDTH / 2)
    return offsets


def _isotonic(values: list[float], weights: list[float]) -> list[float]:
    """Find the non-decreasing sequence nearest to ``values`` (pool adjacent violators)."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, total, size = value, weight, 1
        while pools and pools[-1][0] > mean:
            other, its, many = pools.pop()
            mean = (mean * total + other * its) / (total + its)
            total, size = total + its, size + many
        pools.append((mean, total, size))
    return [mean for mean, _, size in pools for _ in range(size)]
