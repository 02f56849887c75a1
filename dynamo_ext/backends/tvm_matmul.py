"""Matrix products on packed panels, and attention made of them.

The right-hand matrix is cut into panels of a few vectors' width that lie in memory one after the
other, so that the inner loop reads it from front to back; those of constants are cut when the
graph is compiled. See K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix
Multiplication", ACM TOMS 34(3), 2008.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import tvm_math
from dynamo_ext.backends.tvm_convert import (
    Walk,
    converts,
    dtype_name,
    facts,
    load,
    refuse,
    shape_of,
)
from dynamo_ext.backends.tvm_reductions import reduced
from dynamo_ext.backends.tvm_registers import panel_width, tile_rows

if TYPE_CHECKING:
    from torch.fx import Node


def _packed_constant(matrix: Any, width: int) -> Any:
    """Panels of a torch matrix: ``(K, N)`` to ``(ceil(N / width), K, width)``, zeros at the end."""
    import torch

    depth, columns = matrix.shape
    count = -(-columns // width)
    wide = torch.nn.functional.pad(matrix.detach(), (0, count * width - columns))
    return wide.reshape(depth, count, width).permute(1, 0, 2).contiguous()


def panels(walk: Walk, argument: Any, value: Any, rows: int) -> Any:
    """The panels of a right-hand matrix ``(K, N)`` or batch of them ``(B, K, N)``."""
    shape = shape_of(value) if value is not None else tuple(facts(argument).shape)
    depth, columns = shape[-2:]
    width = panel_width(columns, rows)
    count = -(-columns // width)
    constant = walk.constant(argument) if argument is not None else None
    if constant is not None and constant.dim() == 2:  # noqa: PLR2004 - a matrix
        return walk.packed(constant, width, _packed_constant)
    kind = str(value.ty.dtype)

    def element(x: Any, index: Any) -> Any:
        from tvm import tirx

        *batch, panel, k, lane = index
        column = panel * width + lane
        if columns % width == 0:
            return x(*batch, k, column)
        return tirx.if_then_else(column < columns, x(*batch, k, column), tvm_math.const(0, kind))

    return walk.compute((*shape[:-2], count, depth, width), kind, element, [value], "pack")


def product(walk: Walk, left: Any, right: Any, columns: int) -> Any:
    """Rows times panels.

    Parameters
    ----------
    walk
        The graph.
    left
        ``(M, K)`` or ``(B, M, K)``.
    right
        What ``panels`` made.
    columns
        How many columns the right-hand matrix had.

    Returns
    -------
    relax.Var
        ``(M, N)`` or ``(B, M, N)``.
    """
    from tvm import te, tirx

    *batch, rows, depth = shape_of(left)
    *_, count, _, width = shape_of(right)
    tile = tile_rows(rows)
    padded = -(-rows // tile) * tile

    def function(a: Any, b: Any) -> Any:
        k = te.reduce_axis((0, depth), name="k")

        def element(*index: Any) -> Any:
            *own, m, panel, lane = index
            # Rows beyond the last are the last again, and nobody reads them.
            row = m if padded == rows else tirx.Min(m, tvm_math.const(rows - 1, tvm_math.kind(m)))
            return te.sum(a(*own, row, k.var) * b(*own, panel, k.var, lane), axis=k)

        tiles = te.compute((*batch, padded, count, width), element, name="product")
        return te.compute(
            (*batch, rows, columns),
            lambda *i: tiles(*i[:-1], i[-1] // width, i[-1] % width),
            name="unpack",
        )

    return walk.emit(function, [left, right], "matmul", anchor=True)


def _multiply(walk: Walk, left: Any, right: Any) -> Any:
    if facts(left).dtype != facts(right).dtype or not facts(left).is_floating_point():
        refuse("A product of whole numbers")
    rows, columns = int(facts(left).shape[-2]), int(facts(right).shape[-1])
    constant = walk.constant(right)
    value = None if constant is not None and constant.dim() == 2 else walk.value(right)  # noqa: PLR2004
    return product(walk, walk.value(left), panels(walk, right, value, rows), columns)


@converts("mm.default", "bmm.default")
def _mm(walk: Walk, node: Node, a: dict[str, Any]) -> Any:  # noqa: ARG001
    return _multiply(walk, a["self"], a["mat2"])


@converts("addmm.default", "baddbmm.default")
def _addmm(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    left, right = ("mat1", "mat2") if "mat1" in a else ("batch1", "batch2")
    made = _multiply(walk, a[left], a[right])
    kind = dtype_name(facts(node).dtype)
    beta, alpha = (tvm_math.const(a[k], kind) if a[k] != 1 else None for k in ("beta", "alpha"))

    def formula(x: Any, y: Any, index: Any) -> Any:
        summand, total = load(y, index), x(*index)
        if alpha is not None:
            total = total * alpha
        return total + (summand if beta is None else summand * beta)

    if a["beta"] == 0:
        refuse("A summand that does not count")
    return walk.compute(facts(node).shape, kind, formula, [made, walk.value(a["self"])], "bias")


@converts("dot.default", "mv.default")
def _vector(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    names = ("self", "tensor") if "tensor" in a else ("self", "vec")
    first, second = (walk.value(a[name]) for name in names)
    kind = dtype_name(facts(node).dtype)

    def function(x: Any, y: Any) -> Any:
        last = len(x.shape) - 1
        return reduced(x, [last], "sum", kind, lambda i: x(*i) * y(i[last]), "dot")

    return walk.emit(function, [first, second], "dot")


@converts("_scaled_dot_product_flash_attention_for_cpu.default")
def _attention(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    from tvm import te, tirx

    if {user.args[1] for user in node.users} - {0} or a["dropout_p"]:
        refuse("More than attention's result")
    batch, heads, rows, depth = (int(s) for s in facts(a["query"]).shape)
    keys, width = int(facts(a["key"]).shape[2]), int(facts(a["value"]).shape[3])
    if int(facts(a["key"]).shape[1]) != heads:
        refuse("Keys that are shared by heads")
    kind = dtype_name(facts(node).dtype)
    scale = 1 / math.sqrt(depth) if a["scale"] is None else a["scale"]
    flat = batch * heads
    query = walk.reshape(walk.value(a["query"]), (flat, rows, depth))
    key = walk.reshape(walk.value(a["key"]), (flat, keys, depth))
    value = walk.reshape(walk.value(a["value"]), (flat, keys, width))
    turned = walk.compute(
        (flat, depth, keys), kind, lambda x, i: x(i[0], i[2], i[1]), [key], "turned"
    )
    scores = product(walk, query, panels(walk, None, turned, rows), keys)
    mask = None if a["attn_mask"] is None else walk.value(a["attn_mask"])
    lowest = tvm_math.const(float("-inf"), kind)

    def element(x: Any, *rest: Any) -> Any:
        index = rest[-1]
        score = x(*index) * tvm_math.const(scale, kind)
        if mask is not None:
            shape = shape_of(mask)
            full = [index[0] // heads, index[0] % heads, index[1], index[2]][4 - len(shape) :]
            given = rest[0](*[0 if s == 1 else i for s, i in zip(shape, full, strict=True)])
            boolean = tvm_math.kind(given) == "bool"
            score = tvm_math.select(given, score, lowest) if boolean else score + given
        if a["is_causal"]:
            score = tvm_math.select(index[2] <= index[1], score, lowest)
        return score

    sources = [scores] if mask is None else [scores, mask]
    scores = walk.compute((flat, rows, keys), kind, element, sources, "scores")

    def weights(x: Any) -> Any:
        largest = reduced(x, [2], "max", kind, name="largest")
        nothing = tvm_math.const(0, kind)

        def power(b: Any, r: Any, i: Any) -> Any:
            # A row of which everything is masked has no weight at all, as in torch.
            masked = tirx.EQ(largest(b, r), lowest)
            return tvm_math.select(masked, nothing, tvm_math.exp(x(b, r, i) - largest(b, r)))

        powers = te.compute((flat, rows, keys), power, name="powers")
        total = reduced(powers, [2], "sum", kind, name="total")

        def share(b: Any, r: Any, i: Any) -> Any:
            empty = tirx.EQ(total(b, r), nothing)
            sure = tvm_math.select(empty, tirx.const(1.0, kind), total(b, r))
            return powers(b, r, i) / sure

        return te.compute((flat, rows, keys), share, name="softmax")

    shares = walk.emit(weights, [scores], "softmax")
    made = product(walk, shares, panels(walk, None, value, rows), width)
    return [walk.reshape(made, (batch, heads, rows, width))]
