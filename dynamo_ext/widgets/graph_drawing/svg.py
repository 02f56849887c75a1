"""A graph as SVG: a box an operation, coloured by engine, opened at its own size."""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from dynamo_ext.analysis.placement import EAGER, Placement, sets_mode
from dynamo_ext.formatting import clip, count, listing, percent, place, seconds
from dynamo_ext.records.graph import Graph, Operation
from dynamo_ext.widgets.graph_drawing.folds import Box, Fold, parts
from dynamo_ext.widgets.graph_drawing.layout import BOX_HEIGHT, BOX_WIDTH, arrange
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, element, hue, quiet, quiet_words

MAX_NODES = 1500
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_NAME = re.compile(r"(?<![\w.])%?([A-Za-z_]\w*)(?![\w.]|\s*=(?!=)|\s*\()")
_LETTERS = 23  # of an 11 px monospace font in a box
_NOTABLE = 0.02  # of a graph's time in eager
_ZOOMS = (25, 50, 75, 100, 150)  # percent
_OWN_SIZE = 100
_HINT = " Drag to move, Ctrl and wheel to zoom."
_MAX_REACHED = 60  # nodes to go through by keyboard; of larger graphs the table tells the same


def inputs_of(operations: Sequence[Operation]) -> dict[str, list[str]]:
    """Find the names that each operation reads, as its args and kwargs spell them."""
    found: dict[str, list[str]] = {}
    for op in operations:
        words = _NAME.findall(_QUOTED.sub("", f"{op.args} {op.kwargs}"))
        found[op.name] = [name for name in dict.fromkeys(words) if name in found]
    return found


def select(graph: Graph, find: str = "", *, parameters: bool = False) -> tuple[Operation, ...]:
    """Choose the operations to show: all, or those that ``find`` names and their neighbours."""
    shown = [op for op in graph.operations if parameters or not op.is_parameter]
    if not find.strip():
        return tuple(shown)
    hits = {op.name for op in shown if matches(op, find)}
    inputs = inputs_of(graph.operations)
    near = hits.union(*(inputs[name] for name in hits))
    return tuple(op for op in shown if op.name in near or hits.intersection(inputs[op.name]))


def matches(operation: Operation, find: str) -> bool:
    """Whether a name, target, module or shape holds the text, without regard to case."""
    about = operation.name, operation.target, operation.module, operation.result
    words = " ".join(about).casefold()
    return find.strip().casefold() in words


def share(operation: Operation, whole: float) -> str:
    """Write an operation's share of ``whole`` seconds in eager; empty where it was not timed."""
    return percent(operation.seconds / whole) if operation.seconds and whole else ""


def colours(engines: Iterable[str]) -> Mapping[str, str]:
    """Give a class to each engine, in order of appearance; eager is always grey."""
    others = [name for name in dict.fromkeys(engines) if name and name != EAGER]
    return {EAGER: "dx-eager", **{name: hue(index) for index, name in enumerate(others)}}


def draw(
    graph: Graph, placement: Placement, boxes: Sequence[Box], hits: Collection[str] = ()
) -> Markup:
    """Draw boxes of a graph, inputs at the top; those in ``hits`` with a heavier rim.

    One ``<svg>`` under a button for each node, which shows what is known of it in focus, and a
    ``<details>`` for each that has others inside. It has no ids, so that many fit on one page;
    empty for no boxes.
    """
    if not boxes:
        return EMPTY
    boxes = boxes[:MAX_NODES]
    laid = arrange([box.name for box in boxes], _inputs(boxes))
    tints = colours(placement.shares)
    edges = element("path", d=" ".join(_curve(points) for points in laid.edges))
    whole = graph.operation_seconds
    reached = "0" if len(boxes) <= _MAX_REACHED else "-1"
    shapes, buttons = [], []
    for box in boxes:
        x, y = laid.boxes[box.name]
        corner = x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2
        shapes.append(_box(box, corner, _class(box, placement, tints, hits), whole))
        if isinstance(box, Fold):
            about = _about_fold(box, placement, whole)
            inside = draw(graph, placement, _with_inputs(graph, box), hits)
            buttons.append(_unfolding(box, corner, about, inside))
        else:
            buttons.append(_button(box, corner, _about(box, placement, whole), reached))
    size = {"width": f"{laid.width:.0f}", "height": f"{laid.height:.0f}"}
    label = f"Drawing of graph {graph.id}: {count(len(boxes), 'node')}"
    drawn = element("svg", edges, *shapes, role="img", aria_label=label, **size)
    return element("div", drawn, *buttons, class_="dx-nodes", style=f"width:{laid.width:.0f}px")


def canvas(drawn: Markup, label: str) -> Markup:
    """Make a region that shows as much of a drawing as fits, with a list of zooms above it."""
    # What the wheel has zoomed to is the first, and the list's choice then.
    options = [element("option", "", value="1", hidden=""), element("option", "Fit", value="0")]
    options += [
        element("option", f"{each} %", value=each / 100, selected="" if each == _OWN_SIZE else None)
        for each in _ZOOMS
    ]
    select = element("select", *options, onfocus="this.closest('div').onpointerenter?.()")
    zooms = element("label", "Zoom ", select, quiet_words(_HINT))
    script = f"{markup.asset('canvas.js')}(this)"
    window = markup.region(element("div", drawn), label, "dx-canvas")
    return element("div", zooms, window, onpointerenter=script)


def _inputs(boxes: Sequence[Box]) -> dict[str, list[str]]:
    """Find the boxes that each box reads."""
    box_of = {op.name: box.name for box in boxes for op in parts(box)}
    inputs = inputs_of([op for box in boxes for op in parts(box)])
    found = {
        box.name: [box_of[name] for op in parts(box) for name in inputs[op.name]] for box in boxes
    }
    return {name: [x for x in dict.fromkeys(of) if x != name] for name, of in found.items()}


def _with_inputs(graph: Graph, box: Fold) -> list[Box]:
    """What a box has inside, under what it reads from outside."""
    inside = [op for each in box.inside for op in parts(each)]
    names, inputs = {op.name for op in inside}, inputs_of(graph.operations)
    read = {name for op in inside for name in inputs[op.name]} - names
    outside = [op for op in graph.operations if op.name in read and not op.is_parameter]
    return [*(dataclasses.replace(op, opcode="from outside") for op in outside), *box.inside]


def _class(box: Box, placement: Placement, tints: Mapping[str, str], hits: Collection[str]) -> str:
    engines = {placement.engine_of(op) for op in parts(box) if op.computes and not sets_mode(op)}
    tint = "dx-edge-of"
    if any(op.computes for op in parts(box)):
        tint = tints.get(engines.pop(), "dx-shared") if len(engines) == 1 else "dx-shared"
    folded = " dx-fold" if isinstance(box, Fold) else ""
    return f"{tint}{folded}{' dx-hit' if box.name in hits else ''}"


def _at(corner: tuple[float, float]) -> str:
    left, top = corner
    return f"left:{left:.0f}px;top:{top:.0f}px;width:{BOX_WIDTH}px;height:{BOX_HEIGHT}px"


def _button(op: Operation, corner: tuple[float, float], about: str, reached: str) -> Markup:
    """Lie over a node's box; the style sheet shows the label of the one in focus."""
    return element(
        "button",
        type="button",
        style=_at(corner),
        title=op.name,
        aria_label=about,
        tabindex=reached,
    )


def _unfolding(box: Fold, corner: tuple[float, float], about: str, inside: Markup) -> Markup:
    """Lie over a folded box; a click opens what is inside beside it."""
    cover = element("summary", style=_at(corner), title=about, aria_label=about)
    lead = element("p", f"{box.label} ", quiet_words(box.path))
    rest = f"Drawn is the first of {box.times:,} that are alike: Find shows another."
    shown = [lead, quiet(rest) if box.times > 1 else EMPTY, inside]
    at = f"left:{corner[0] + BOX_WIDTH + 10:.0f}px;top:{corner[1]:.0f}px"
    return element("details", cover, element("div", *shown, style=at))


def _about_fold(box: Fold, placement: Placement, whole: float) -> str:
    lines = [f"{box.label}: {count(box.size, 'operation')}", box.path]
    engines = dict.fromkeys(placement.engine_of(op) for op in box.operations if op.computes)
    if any(engines):
        lines.append(f"ran in {listing(list(filter(None, engines)))}")
    taken = sum(op.seconds for op in box.operations)
    if taken and whole:
        lines.append(f"{seconds(taken)} in eager, {percent(taken / whole)} of its graph's")
    return "\n".join(filter(None, lines))


def _about(op: Operation, placement: Placement, whole: float) -> str:
    """Everything that the record holds of an operation, a line each."""
    keywords = f", {op.kwargs}" if op.kwargs.strip("{}()") else ""
    lines = [f"{op.name}: {op.opcode} {op.target}", op.result]
    if op.computes:
        lines[0] = f"{op.name} = {op.target}({clip(op.args, 300)}{clip(keywords, 300)})"
        if engine := placement.engine_of(op):
            lines.append(f"ran in {engine}")
    if op.seconds:
        lines.append(f"{seconds(op.seconds)} in eager by itself, {share(op, whole)} of its graph's")
    if op.modules:
        lines.append(f"in {op.module}: {op.modules[-1][1]}")
    code = op.line.code.strip() if op.line else ""
    lines.append(f"{place(op.line)}: {code}" if code else place(op.line))
    return "\n".join(filter(None, lines))


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Draw an edge from box to box, upright beside the boxes of the rows that it passes."""
    (x, y), *_, (_, last) = points
    y += BOX_HEIGHT / 2
    path = [f"M{x:.0f} {y:.0f}"]
    for to_x, row_y in points[1:]:
        to_y = row_y - BOX_HEIGHT / 2
        middle = (y + to_y) / 2
        path.append(f"C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}")
        x, y = to_x, row_y + BOX_HEIGHT / 2
        if row_y != last:
            path.append(f"V{y:.0f}")
    return "".join(path)


def _box(box: Box, corner: tuple[float, float], class_: str, whole: float) -> Markup:
    """Draw a node: its operator, its result, and its share of the time if it has a large one."""
    left, top = corner
    title, detail = _lines(box)
    taken = sum(op.seconds for op in parts(box))
    if whole and taken >= _NOTABLE * whole:
        share_ = percent(taken / whole)
        detail = f"{clip(detail, _LETTERS - len(share_) - 1)} {share_}"
    detail = clip(detail, _LETTERS)
    start = f"{left + 8:.0f}"
    return element(
        "g",
        element("rect", x=f"{left:.0f}", y=f"{top:.0f}", width=BOX_WIDTH, height=BOX_HEIGHT, rx=3),
        element("text", title, x=start, y=f"{top + 15:.0f}"),
        element("text", detail, x=start, y=f"{top + 30:.0f}", class_="dx-quiet"),
        class_=class_,
    )


def _lines(box: Box) -> tuple[str, str]:
    """What a box says in its two lines."""
    if isinstance(box, Fold):
        times = box.label.removeprefix(box.title)
        name = clip(box.title, _LETTERS - 2 - len(times))
        return f"▸ {name}{times}", count(box.size, "operation")
    # Names of inputs and parameters begin alike and differ at their end.
    name = box.name if len(box.name) <= _LETTERS else f"…{box.name[1 - _LETTERS :]}"
    title = _short(box.target) if box.computes else name
    return clip(title, _LETTERS), box.result or (box.name if box.computes else box.opcode)


def _short(target: str) -> str:
    """Keep the end of a target that tells it apart: ``nn.functional.linear`` as ``linear``."""
    if builtin := re.search(r"<built-in (?:function|method) (\w+)", target):
        return builtin[1]
    overload = re.search(r"(?:aten|prims)\.[\w.]+$", target)
    return overload[0] if overload else target.rsplit(".", 1)[-1]
