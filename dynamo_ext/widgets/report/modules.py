"""The modules of a graph as a tree, tinted by their share of its time or of its operations."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dynamo_ext.analysis.placement import EAGER, Placement, operator, place_graph, sets_mode
from dynamo_ext.formatting import count, listing, percent, seconds
from dynamo_ext.records.graph import Graph, Operation
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.graph_drawing.folds import Box, Fold, tree
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, element, quiet_words

NOTHING = "None of these operations is of a module."
_BY_TIME = "Modules, by the time of their operations in eager"
_BY_NUMBER = "Modules, by their number of operations"
_UNTIMED = "With --profile, it is by the time of the operations in eager."
_ALIKE = "What is inside of layers that are alike (×) is that of all of them together."
_NAMES = 3  # operators to name of those that are of no module inside

_Costs = Mapping[str, tuple[int, float]]
"""What each operation stands for: how many that are alike, and their seconds."""


def html(
    report: Report,
    graph: Graph,
    operations: Sequence[Operation],
    most: int | None = None,
    *,
    opened: bool = False,
) -> Markup:
    """Render the modules of some of a graph's operations; empty where these are of none.

    Of each module at most ``most`` that it has inside; ``opened`` says how they start.
    """
    shown = [op for op in operations if op.computes]
    if not any(op.modules for op in shown):
        return EMPTY
    placement = place_graph(report, graph)
    timed = graph.operation_seconds > 0
    made = _Tree(placement, graph.operation_seconds, graph.operation_count, most, opened)
    rows = made.rows(tree(shown, placement), "", {op.name: (1, op.seconds) for op in shown})
    notes = [_ALIKE] if "×" in rows else []
    notes += [] if timed else [_UNTIMED]
    return markup.join(
        [
            element("p", element("b", _BY_TIME if timed else _BY_NUMBER)),
            markup.region(rows, f"Modules of {graph.id}, scrolls", "dx-tree"),
            markup.quiet(" ".join(notes)),
        ]
    )


@dataclass(frozen=True)
class _Tree:
    """What all rows of a graph's tree have in common, and the rows."""

    placement: Placement
    seconds: float
    number: int
    most: int | None
    opened: bool

    def rows(self, boxes: Sequence[Box], parent: str, costs: _Costs) -> Markup:
        """The modules among boxes, then the operations that are the parent's own."""
        inner = [box for box in boxes if isinstance(box, Fold) or _below(box, parent)]
        own = [box for box in boxes if isinstance(box, Operation) and not _below(box, parent)]
        alone = sum(isinstance(box, Fold) for box in inner) == 1
        made = [self._row(box, parent, costs, alone=alone) for box in inner[: self.most]]
        made.append(markup.left_out(len(inner), self.most, "module"))
        if own:
            names = listing(list(dict.fromkeys(operator(op.target) for op in own)), _NAMES)
            made.append(self._line("div", "", names, own, costs))
        return markup.join(made)

    def _row(self, box: Box, parent: str, costs: _Costs, *, alone: bool) -> Markup:
        if isinstance(box, Operation):
            path, kind = box.modules[-1]
            return self._line("div", kind, _tail(path, parent), [box], costs)
        line = self._line("summary", box.label, _tail(box.path, parent), box.operations, costs)
        first = box.path.partition(" to ")[0]
        # Several boxes that repeat together have no row: they are of the parent.
        several = any(isinstance(each, Fold) and each.path == first for each in box.inside)
        within = parent if several or not first else first
        inside = self.rows(box.inside, within, _together(box, costs))
        # Where only one module has others inside, there is nothing to choose.
        opened = self.opened or (alone and box.times == 1)
        return element("details", line, inside, open="" if opened else None)

    def _line(
        self, tag: str, title: str, about: str, operations: Sequence[Operation], costs: _Costs
    ) -> Markup:
        number = sum(costs[op.name][0] for op in operations)
        taken = sum(costs[op.name][1] for op in operations)
        share = taken / self.seconds if self.seconds else number / self.number
        ran = f"{count(number, 'operation')}{self._engines(operations, costs)}"
        words = f"{seconds(taken)}, {ran}" if taken else ran
        return element(
            tag,
            element("span", percent(share), class_="dx-part-of"),
            markup.join([element("b", title), " "]) if title else EMPTY,
            about,
            quiet_words(f" {words}"),
            style=f"background:rgba(232,113,10,{0.4 * min(share, 1.0):.2f})",
        )

    def _engines(self, operations: Sequence[Operation], costs: _Costs) -> str:
        """Say where they ran: in one engine, or how many in each."""
        found: Counter[str] = Counter()
        for op in operations:
            if not sets_mode(op):
                found[self.placement.engine_of(op)] += costs[op.name][0]
        if len(found) <= 1:
            return "".join(f" in {engine}" for engine in found if engine)
        ordered = sorted(found.items(), key=lambda pair: (pair[0] == EAGER, -pair[1]))
        named = [f"{many:,} in {engine or 'one of the engines'}" for engine, many in ordered]
        return f", {listing(named, len(named))}"


def _below(op: Operation, parent: str) -> bool:
    """Whether an operation is of a module inside of the parent."""
    return bool(op.modules) and op.module != parent


def _tail(path: str, parent: str) -> str:
    """Shorten a path, or two of them, by what its parent's row says."""
    ends = [each.removeprefix(f"{parent}.") for each in path.split(" to ")]
    return " to ".join(ends)


def _together(box: Fold, costs: _Costs) -> _Costs:
    """Let the first of boxes that are alike stand for all of them."""
    alike = len(box.operations) // box.times
    found = {}
    for index, first in enumerate(box.operations[:alike]):
        numbers, taken = zip(*(costs[op.name] for op in box.operations[index::alike]), strict=True)
        found[first.name] = sum(numbers), sum(taken)
    return found
