"""A graph as SVG: a box an operation, coloured by engine, opened at its own size."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from dynamo_ext.analysis.placement import EAGER, Placement
from dynamo_ext.formatting import clip, count, percent, place, seconds
from dynamo_ext.records.report import Graph, Operation
from dynamo_ext.widgets.graph_drawing.layout import BOX_HEIGHT, BOX_WIDTH, arrange
from dynamo_ext.widgets.html.markup import EMPTY, Markup, element, hue

MAX_NODES = 1500
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_NAME = re.compile(r"(?<![\w.])%?([A-Za-z_]\w*)(?![\w.]|\s*=(?!=)|\s*\()")
_PARAMETER = re.compile(r"(?:^|_)(?:parameters|buffers)_")
_LETTERS = 23  # of an 11 px monospace font in a box
_NOTABLE = 0.02  # of a graph's time in eager
_MAX_REACHED = 60  # nodes to go through by keyboard; of larger graphs the table tells the same


def is_parameter(operation: Operation) -> bool:
    """Whether a node only brings a weight or a buffer in."""
    return operation.opcode == "get_attr" or (
        operation.opcode == "placeholder" and bool(_PARAMETER.search(operation.name))
    )


def _computes(operation: Operation) -> bool:
    return operation.opcode.startswith("call_")


def inputs_of(operations: Sequence[Operation]) -> dict[str, list[str]]:
    """Find the names that each operation reads, as its args and kwargs spell them."""
    found: dict[str, list[str]] = {}
    for op in operations:
        words = _NAME.findall(_QUOTED.sub("", f"{op.args} {op.kwargs}"))
        found[op.name] = [name for name in dict.fromkeys(words) if name in found]
    return found


def select(graph: Graph, find: str = "", *, parameters: bool = False) -> tuple[Operation, ...]:
    """Choose the operations to show: all, or those that ``find`` names and their neighbours."""
    shown = [op for op in graph.operations if parameters or not is_parameter(op)]
    if not find.strip():
        return tuple(shown)
    hits = {op.name for op in shown if matches(op, find)}
    inputs = inputs_of(graph.operations)
    near = set(hits)
    for op in shown:
        if op.name in hits:
            near.update(inputs[op.name])
        elif hits.intersection(inputs[op.name]):
            near.add(op.name)
    return tuple(op for op in shown if op.name in near)


def matches(operation: Operation, find: str) -> bool:
    """Whether a name, target or shape holds the text, without regard to case."""
    words = f"{operation.name} {operation.target} {result(operation)}".casefold()
    return find.strip().casefold() in words


def result(operation: Operation) -> str:
    """Write the result's type as ``float32[8, s0]``; empty where it is not a tensor."""
    shape = "" if operation.shape is None else f"[{', '.join(operation.shape)}]"
    return operation.dtype.removeprefix("torch.") + shape


def share(operation: Operation, whole: float) -> str:
    """Write an operation's share of ``whole`` seconds in eager; empty where it was not timed."""
    return percent(operation.seconds / whole) if operation.seconds and whole else ""


def colours(engines: Iterable[str]) -> Mapping[str, str]:
    """Give a class to each engine, in order of appearance; eager is always grey."""
    others = [name for name in dict.fromkeys(engines) if name and name != EAGER]
    return {EAGER: "dx-eager", **{name: hue(index) for index, name in enumerate(others)}}


def draw(
    graph: Graph,
    placement: Placement,
    operations: Sequence[Operation],
    hits: Collection[str] = (),
) -> Markup:
    """Draw ``operations`` of a graph, inputs at the top; those in ``hits`` with a heavier rim.

    One ``<svg>`` under a button for each node, which shows what is known of it in focus. It has no
    ids, so that many fit on one page; empty for no operations.
    """
    operations = operations[:MAX_NODES]
    if not operations:
        return EMPTY
    laid = arrange([op.name for op in operations], inputs_of(operations))
    tints = colours(placement.shares)
    edges = element("path", d=" ".join(_curve(points) for points in laid.edges))
    whole = graph.operation_seconds
    reached = "0" if len(operations) <= _MAX_REACHED else "-1"
    boxes, buttons = [], []
    for op in operations:
        x, y = laid.boxes[op.name]
        corner = x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2
        tint = tints.get(placement.engine_of(op), "dx-shared") if _computes(op) else "dx-edge-of"
        boxes.append(_box(op, corner, f"{tint} dx-hit" if op.name in hits else tint, whole))
        buttons.append(_button(op, corner, _about(op, placement, whole), reached))
    size = {"width": f"{laid.width:.0f}", "height": f"{laid.height:.0f}"}
    label = f"Drawing of graph {graph.id}: {count(len(operations), 'node')}"
    drawn = element("svg", edges, *boxes, role="img", aria_label=label, **size)
    return element("div", drawn, *buttons, class_="dx-nodes", style=f"width:{laid.width:.0f}px")


def _button(op: Operation, corner: tuple[float, float], about: str, reached: str) -> Markup:
    """Lie over a node's box; the style sheet shows the label of the one in focus."""
    left, top = corner
    at = f"left:{left:.0f}px;top:{top:.0f}px;width:{BOX_WIDTH}px;height:{BOX_HEIGHT}px"
    return element(
        "button", type="button", style=at, title=op.name, aria_label=about, tabindex=reached
    )


def _about(op: Operation, placement: Placement, whole: float) -> str:
    """Everything that the record holds of a node, a line each."""
    keywords = f", {op.kwargs}" if op.kwargs.strip("{}()") else ""
    lines = [f"{op.name}: {op.opcode} {op.target}", result(op)]
    if _computes(op):
        lines[0] = f"{op.name} = {op.target}({clip(op.args, 300)}{clip(keywords, 300)})"
        if engine := placement.engine_of(op):
            lines.append(f"ran in {engine}")
    if op.seconds:
        lines.append(f"{seconds(op.seconds)} in eager by itself, {share(op, whole)} of its graph's")
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


def _box(op: Operation, corner: tuple[float, float], class_: str, whole: float) -> Markup:
    """Draw a node: its operator, its result, and its share of the time if it has a large one."""
    left, top = corner
    # Names of inputs and parameters begin alike and differ at their end.
    name = op.name if len(op.name) <= _LETTERS else f"…{op.name[1 - _LETTERS :]}"
    title = _short(op.target) if _computes(op) else name
    detail = result(op) or (op.name if _computes(op) else op.opcode)
    if whole and op.seconds >= _NOTABLE * whole:
        taken = share(op, whole)
        detail = f"{clip(detail, _LETTERS - len(taken) - 1)} {taken}"
    detail = clip(detail, _LETTERS)
    size = {"width": BOX_WIDTH, "height": BOX_HEIGHT}
    start = f"{left + 8:.0f}"
    return element(
        "g",
        element("rect", x=f"{left:.0f}", y=f"{top:.0f}", **size, rx=3),
        element("text", clip(title, _LETTERS), x=start, y=f"{top + 15:.0f}"),
        element("text", detail, x=start, y=f"{top + 30:.0f}", class_="dx-quiet"),
        class_=class_,
    )


def _short(target: str) -> str:
    """Keep the end of a target that tells it apart: ``nn.functional.linear`` as ``linear``."""
    if builtin := re.search(r"<built-in (?:function|method) (\w+)", target):
        return builtin[1]
    overload = re.search(r"(?:aten|prims)\.[\w.]+$", target)
    return overload[0] if overload else target.rsplit(".", 1)[-1]
