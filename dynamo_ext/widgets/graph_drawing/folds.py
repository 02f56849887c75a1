"""A large graph in few boxes: modules folded, and what repeats in one box with its number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from dynamo_ext.analysis.placement import Placement, operator
from dynamo_ext.formatting import listing
from dynamo_ext.records.graph import Operation

_BOXES = 32  # a drawing of so many is not folded
_LONGEST = 32  # boxes that repeat together
_REPEATED = 8  # single operations that are worth folding


@dataclass(frozen=True)
class Fold:
    """Operations drawn as one box: a module, or what repeats ``times`` in a row.

    ``path`` is that of the first and the last; ``inside`` is what the first one has.
    """

    title: str
    path: str
    operations: tuple[Operation, ...]
    inside: tuple[Operation | Fold, ...]
    times: int = 1

    @property
    def name(self) -> str:
        """What tells it apart from the other boxes of its graph."""
        return self.operations[0].name

    @property
    def label(self) -> str:
        """Its title, with how often it repeats."""
        return f"{self.title} × {self.times:,}" if self.times > 1 else self.title

    @property
    def size(self) -> int:
        """The operations that compute."""
        return sum(op.computes for op in self.operations)


Box = Operation | Fold


def fold(operations: Sequence[Operation], placement: Placement) -> tuple[Box, ...]:
    """Fold a graph's operations, where they are many, into about ``_BOXES`` boxes."""
    if len(operations) <= _BOXES:
        return tuple(operations)
    return _opened(_level(operations, 0, placement, _opened))


def tree(operations: Sequence[Operation], placement: Placement) -> tuple[Box, ...]:
    """All modules of a graph, each with what it has inside; what repeats is one box."""
    return tuple(_level(operations, 0, placement, tuple))


def modules_of(operations: Sequence[Operation]) -> str:
    """Name what operations are of: ``net``, or ``net.layers.0 to net.layers.3``; or nothing."""
    stacks = [op.modules for op in operations if op.computes and op.modules]
    levels = zip(*stacks, strict=False)
    shared = [level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels)]
    depth = len(shared)
    below = list(dict.fromkeys(stack[depth][0] for stack in stacks if len(stack) > depth))
    return f"{below[0]} to {below[-1]}" if len(below) > 1 else shared[-1][0] if shared else ""


def parts(box: Box) -> tuple[Operation, ...]:
    """The operations of a box."""
    return box.operations if isinstance(box, Fold) else (box,)


def _opened(boxes: list[Box]) -> tuple[Box, ...]:
    """Put what single modules have in their place, the largest first, while there is room."""
    while True:
        # A single box says nothing.
        alone = sum(any(op.computes for op in parts(box)) for box in boxes) == 1
        room = math.inf if alone else _BOXES - len(boxes)
        found = [b for b in boxes if isinstance(b, Fold) and b.times == 1 and len(b.inside) <= room]
        if not found:
            return tuple(boxes)
        largest = max(found, key=lambda each: each.size)
        index = boxes.index(largest)
        boxes[index : index + 1] = largest.inside


def _level(
    operations: Sequence[Operation],
    depth: int,
    placement: Placement,
    opened: Callable[[list[Box]], tuple[Box, ...]],
) -> list[Box]:
    """The modules at a depth of the stack as a box each, beside the operations of none."""
    weights: dict[str, list[Operation]] = {}
    rest = []
    for op in operations:
        if op.is_parameter and len(op.modules) > depth:
            weights.setdefault(op.modules[depth][0], []).append(op)
        else:
            rest.append(op)
    boxes: list[Box] = []
    for path, run in groupby(rest, key=lambda op: _path(op, depth)):
        found = [*weights.pop(path, ()), *run]
        if sum(op.computes for op in found) <= 1:
            boxes += found
            continue
        inside = opened(_level(found, depth + 1, placement, opened))
        boxes.append(Fold(found[-1].modules[depth][1], path, tuple(found), inside))
    boxes[:0] = [op for left in weights.values() for op in left]
    # What repeats in a row is one box.
    kinds = [_kind(box, placement) for box in boxes]
    merged: list[Box] = []
    index = 0
    while index < len(boxes):
        length, times = _repeats(boxes, kinds, index)
        end = index + length * times
        merged.append(_repeated(boxes[index:end], length, times) if times > 1 else boxes[index])
        index = end
    return merged


def _path(op: Operation, depth: int) -> str:
    # An operation of no module at this depth is a run of its own.
    return op.modules[depth][0] if op.computes and len(op.modules) > depth else f"={op.name}"


def _repeats(boxes: Sequence[Box], kinds: Sequence[object], index: int) -> tuple[int, int]:
    """How many boxes from ``index`` on repeat together, and how often: those that cover most."""
    best = 1, 1
    for length in range(1, min(_LONGEST, (len(boxes) - index) // 2) + 1):
        end = index + length
        while end < len(kinds) and kinds[end] == kinds[end - length]:
            end += 1
        times = (end - index) // length
        has_module = any(isinstance(box, Fold) for box in boxes[index : index + length])
        worth = has_module or (len(boxes) > _BOXES and length * times >= _REPEATED)
        if times > 1 and worth and length * times > best[0] * best[1]:
            best = length, times
    return best


def _repeated(boxes: Sequence[Box], length: int, times: int) -> Fold:
    first, last = boxes[:length], boxes[-length:]
    titles = [box.title if isinstance(box, Fold) else operator(box.target) for box in first]
    path = ""
    if isinstance(first[0], Fold) and isinstance(last[0], Fold):
        path = f"{first[0].path} to {last[0].path}"
    inside = first[0].inside if length == 1 and isinstance(first[0], Fold) else tuple(first)
    names = [name if many == 1 else f"{many} {name}" for name, many in Counter(titles).items()]
    operations = tuple(op for box in boxes for op in parts(box))
    return Fold(listing(names, 3), path, operations, inside, times)


def _kind(box: Box, placement: Placement) -> object:
    """What boxes that are alike have in common: operators, results and engines."""
    found = [(op.target, op.result, placement.engine_of(op)) for op in parts(box) if op.computes]
    return (box.title, *found) if isinstance(box, Fold) else tuple(found) or box.name
