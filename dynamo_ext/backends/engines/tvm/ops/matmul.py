"""Matrix products on packed panels, and attention made of them.

The right-hand matrix is cut into panels of a few vectors' width that lie in memory one after the
other, so that the inner loop reads it from front to back; those of constants are cut when the
graph is compiled. See K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix
Multiplication", ACM TOMS 34(3), 2008.
"""

import math
from typing import Any

from dynamo_ext.backends.engines.tvm import scalar_math
from dynamo_ext.backends.engines.tvm.convert import (
    OUT_ELEMENTWISE_FUSABLE,
    GraphConverter,
    Operation,
    converts,
    shape_of,
)
from dynamo_ext.backends.engines.tvm.ops.reductions import softmax_of
from dynamo_ext.backends.engines.tvm.schedule import register_tiles
from dynamo_ext.backends.support.single_op import used


def _panels(graph: GraphConverter, argument: Any, rows: int) -> Any:
    """The panels of a right-hand matrix ``(K, N)`` or batch of them ``(B, K, N)``."""
    *batch, depth, columns = shape_of(argument)
    width = register_tiles.panel_width(columns, rows)
    constant = graph.constant(argument)
    if constant is not None and not batch:
        return graph.packed(
            constant, width, lambda matrix, lanes: register_tiles.in_lanes(matrix.t(), lanes)
        )
    value = graph.value(argument)
    kind = str(value.ty.dtype)

    def element(x: Any, index: Any) -> Any:
        from tvm import tirx

        *own, panel, k, lane = index
        column = panel * width + lane
        if columns % width == 0:
            return x(*own, k, column)
        return tirx.if_then_else(column < columns, x(*own, k, column), scalar_math.const(0, kind))

    return graph.compute(
        (*batch, -(-columns // width), depth, width), kind, element, [value], "pack"
    )


def _product(graph: GraphConverter, left: Any, right: Any) -> Any:
    """``(M, K)`` or ``(B, M, K)`` times ``(K, N)`` or ``(B, K, N)``: nodes or Relax values."""
    from tvm import te

    *batch, rows, depth = shape_of(left)
    columns = shape_of(right)[-1]
    panels = _panels(graph, right, rows)
    *_, count, _, width = shape_of(panels)
    padded = register_tiles.whole_tiles(rows, register_tiles.tile_rows(rows))

    def function(a: Any, b: Any) -> Any:
        k = te.reduce_axis((0, depth), name="k")

        def element(*index: Any) -> Any:
            *own, m, panel, lane = index
            # Rows beyond the last are the last again, and are not read.
            row = m if padded == rows else scalar_math.at_most(m, rows - 1)
            return te.sum(a(*own, row, k.var) * b(*own, panel, k.var, lane), axis=k)

        tiles = te.compute((*batch, padded, count, width), element, name="product")
        return te.compute(
            (*batch, rows, columns),
            lambda *i: tiles(*i[:-1], i[-1] // width, i[-1] % width),
            name="unpack",
        )

    return graph.emit(function, [left, panels], "matmul", OUT_ELEMENTWISE_FUSABLE)


def _multiply(op: Operation, left: str, right: str) -> Any:
    if not op.dtype.startswith("float"):
        op.refuse("A product of whole numbers")
    return _product(op.graph, op[left], op[right])


@converts("mm.default", "bmm.default")
def _mm(op: Operation) -> Any:
    return _multiply(op, "self", "mat2")


@converts("addmm.default")
def _addmm(op: Operation) -> Any:
    if op["beta"] == 0:
        op.refuse("A summand that does not count")
    made = _multiply(op, "mat1", "mat2")

    def element(x: Any, y: Any, index: Any) -> Any:
        summand = scalar_math.scaled(scalar_math.load(y, index), op["beta"])
        return scalar_math.scaled(x(*index), op["alpha"]) + summand

    return op.compute(element, made, op["self"])


@converts("_scaled_dot_product_flash_attention_for_cpu.default")
def _attention(op: Operation) -> Any:
    if any(used(op.node)) or op["dropout_p"]:
        op.refuse("More than attention's result")
    batch, heads, rows, depth = shape_of(op["query"])
    _, own_heads, keys, width = shape_of(op["value"])
    if own_heads != heads:
        op.refuse("Keys that are shared by heads")
    graph, dtype, flat = op.graph, op.dtype, batch * heads
    scale = 1 / math.sqrt(depth) if op["scale"] is None else op["scale"]
    query = graph.reshape(op["query"], (flat, rows, depth))
    key = graph.reshape(op["key"], (flat, keys, depth))
    turned = graph.compute(
        (flat, depth, keys), dtype, lambda x, i: x(i[0], i[2], i[1]), [key], "turned"
    )
    masks = op.given("attn_mask")
    lowest = scalar_math.const(-math.inf, dtype)

    def element(x: Any, *rest: Any) -> Any:
        *mask, index = rest
        score = x(*index) * scalar_math.const(scale, dtype)
        if mask:
            given = scalar_math.load(
                mask[0], [index[0] // heads, index[0] % heads, index[1], index[2]]
            )
            boolean = scalar_math.kind(given) == "bool"
            score = scalar_math.select(given, score, lowest) if boolean else score + given
        if op["is_causal"]:
            score = scalar_math.select(index[2] <= index[1], score, lowest)
        return score

    scores = _product(graph, query, turned)
    scores = graph.compute((flat, rows, keys), dtype, element, [scores, *masks], "scores")
    # A row of which everything is masked has no weight at all, as in torch.
    shares = graph.emit(lambda x: softmax_of(x, 2, dtype, masked=True), [scores], "softmax")
    made = _product(graph, shares, graph.reshape(op["value"], (flat, keys, width)))
    return [op.reshaped(made)]
