"""Schedules by rule: how each function of a legalised module runs on this CPU, unmeasured.

Relax leaves plain loops, up to some hundred times slower than eager. Products get a tile of
results that stays in registers, with what follows them computed on the tile; normalisations go
row by row; the rest is cut into vectors and spread over threads. Each schedule is a trace of
TensorIR's own primitives (arXiv:2207.04296), so that it can stand in MetaSchedule's database
(arXiv:2205.13603) beside those that were searched for.
"""

import math
from collections.abc import Sequence
from typing import Any

from dynamo_ext.backends.engines.tvm.schedule import register_tiles
from dynamo_ext.backends.engines.tvm.schedule.register_tiles import plane_tile, tile_rows
from dynamo_ext.interruptions import suppressed

MIN_LANES = 4

MIN_PARALLEL = 2**14
"""Elements below which starting other threads costs more than they help."""


def schedule(function: Any) -> Any:
    """A ``Schedule`` of one PrimFunc: the first rule that fits it."""
    plain = fresh(function)
    names = [str(plain.get(block).name_hint) for block in _blocks(plain)]
    tiled = (_tiled_fused, _tiled) if "product" in names else ()
    for rule in (*tiled, _row_wise, _elementwise):
        made = fresh(function)
        # TVM refuses what would be another function.
        with suppressed(Exception):
            if rule(made):
                return made
    return plain


def fresh(function: Any) -> Any:
    """An empty schedule of a PrimFunc, which is called ``main`` in it."""
    import tvm
    from tvm.s_tir import Schedule, renew_defs

    # A deep copy: a schedule works in place on what it takes to be its own.
    named = renew_defs(function).with_attr("global_symbol", "main")
    return Schedule(tvm.IRModule({"main": named}))


def _blocks(sch: Any) -> list[Any]:
    return list(sch.get_child_blocks(sch.get_sblock("root")))


def _extent(sch: Any, loop: Any) -> int:
    return int(sch.get(loop).extent)


def _is_sum(sch: Any, block: Any) -> list[bool]:
    """For each loop's variable of a block: whether it is summed over."""
    return [int(var.iter_type) != 0 for var in sch.get(block).iter_vars]


def _divided(sch: Any, block: Any, loops: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The inner loops of a block: those over its result, and those over sums."""
    # Loops that a fusion has used up are missing at the front.
    summed = _is_sum(sch, block)[-len(loops) :] if loops else []
    pairs = list(zip(loops, summed, strict=True))
    return [loop for loop, s in pairs if not s], [loop for loop, s in pairs if s]


def lanes_of(extent: int) -> int:
    """Elements of a vector for a loop: a divisor that fits registers well, or none."""
    lanes = register_tiles.registers().lanes
    for wanted in (2 * lanes, lanes):
        if extent % wanted == 0:
            return wanted
    fitting = [n for n in range(MIN_LANES, 2 * lanes + 1) if extent % n == 0]
    return max(fitting, default=1)


def _inline(sch: Any) -> Any:
    """Compute intermediate elements where they are used; the block that is the result."""
    *others, last = _blocks(sch)
    for block in others:
        if not any(_is_sum(sch, block)) and len(sch.get_consumers(block)) == 1:
            sch.compute_inline(block)
    return last


def _split(sch: Any, loops: Sequence[Any], tiles: Sequence[int]) -> tuple[list[Any], list[Any]]:
    """Each loop as one over tiles, and one within a tile."""
    pairs = [sch.split(loop, [None, tile]) for loop, tile in zip(loops, tiles, strict=True)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


# Products.


def _tiled_fused(sch: Any) -> bool:
    """A tile of results in registers, and on it all that follows."""
    main = sch.get_sblock("product")
    last = _inline(sch)
    if len(_blocks(sch)) != 2:  # noqa: PLR2004 - the product and the result
        return False
    tile = _matrix_tile(sch, main, last) or _plane_tile(sch, main, last)
    if tile is None:
        return False
    outer, inner = tile
    sch.reorder(*outer, *inner)
    place = sch.fuse(*outer)
    sch.parallel(place)
    sch.compute_at(main, place, preserve_unit_loops=True)
    sch.set_scope(main, 0, "local")
    _registers(sch, main)
    # With every index known, the tile stays in registers also where it is turned.
    for loop in inner[:-1]:
        sch.unroll(loop)
    sch.vectorize(inner[-1])
    return True


def _matrix_tile(sch: Any, main: Any, last: Any) -> tuple[list[Any], list[Any]] | None:
    loops, own = sch.get_loops(last), sch.get_loops(main)
    if len(own) != len(loops) + 2:
        return None
    *batch, m, n = loops
    rows, width = _extent(sch, m), _extent(sch, own[-2])
    tile = tile_rows(rows)
    if rows % tile or _extent(sch, n) % width:
        return None
    (outer_m, outer_n), inner = _split(sch, (m, n), (tile, width))
    return [*batch, outer_n, outer_m], inner


def _plane_tile(sch: Any, main: Any, last: Any) -> tuple[list[Any], list[Any]] | None:
    loops, own = sch.get_loops(last), sch.get_loops(main)
    if len(loops) != 4 or len(own) != 8:  # noqa: PLR2004 - images, and filters over them
        return None
    n, c, y, x = loops
    width = _extent(sch, own[4])
    if _extent(sch, c) % width or _extent(sch, own[1]) * width != _extent(sch, c):
        return None
    height, length = plane_tile(_extent(sch, y), _extent(sch, x))
    if _extent(sch, y) % height or _extent(sch, x) % length:
        return None
    outer, inner = _split(sch, (c, y, x), (width, height, length))
    return [n, *outer], inner


def _registers(sch: Any, main: Any) -> None:
    """Order the loops of a product within its tile: sums outside, then rows, then lanes."""
    spatial, sums = _divided(sch, main, sch.get_loops(main)[1:])
    sch.reorder(*sums, *spatial)
    for loop in spatial[:-1]:
        sch.unroll(loop)
    sch.vectorize(spatial[-1])
    sch.decompose_reduction(main, sums[0])


def _tiled(sch: Any) -> bool:
    """A product whose tiles do not divide its result: the tiles first, then what follows."""
    main = sch.get_sblock("product")
    last = _inline(sch)
    copied = sch.cache_write(main, 0, "local")
    loops = sch.get_loops(copied)
    if len(loops) == 5:  # noqa: PLR2004 - images
        n, block, y, x, lane = loops
        outer, inner = _split(sch, (y, x), plane_tile(_extent(sch, y), _extent(sch, x)))
        outer = [n, block, *outer]
    else:
        *batch, m, panel, lane = loops
        outer, inner = _split(sch, (m,), (tile_rows(_extent(sch, m)),))
        outer = [*batch, panel, *outer]
    sch.reorder(*outer, *inner, lane)
    place = sch.fuse(*outer)
    sch.parallel(place)
    sch.compute_at(main, place, preserve_unit_loops=True)
    _registers(sch, main)
    sch.vectorize(lane)
    _plain(sch, last)
    return True


# Normalisations.


def _row_wise(sch: Any) -> bool:
    """Several reductions and their result row by row, each row in one thread's cache."""
    last = _inline(sch)
    others = _blocks(sch)[:-1]
    if not others or any(_is_sum(sch, last)):
        return False
    loops = sch.get_loops(last)
    rows = math.prod(_extent(sch, loop) for loop in loops[:-1])
    if len(loops) < 2 or rows < 2:  # noqa: PLR2004 - a matrix
        return False
    for block in others:
        extents = [_extent(sch, loop) for loop in sch.get_loops(block)]
        summed = _is_sum(sch, block)
        own = [e for e, s in zip(extents, summed, strict=True) if not s]
        extra = own[len(loops) - 1 :]
        if math.prod(own[: len(loops) - 1]) != rows or len(extra) > 1:
            return False
    place = sch.fuse(*loops[:-1])
    for block in reversed(others):
        sch.compute_at(block, place, preserve_unit_loops=True)
    if rows * _extent(sch, loops[-1]) >= MIN_PARALLEL:
        sch.parallel(place)
    for block in [*others, last]:
        _plain(sch, block, in_row=True)
    return True


# All else.


def _elementwise(sch: Any) -> bool:
    """Each block by itself."""
    _inline(sch)
    for block in _blocks(sch):
        _plain(sch, block)
    return True


def _plain(sch: Any, block: Any, *, in_row: bool = False) -> None:
    """A block in vectors, and spread over threads unless its rows, the first loop, are already."""
    loops = sch.get_loops(block)[1 if in_row else 0 :]
    spatial, sums = _divided(sch, block, loops)
    work = math.prod(_extent(sch, loop) for loop in loops)
    moving = [loop for loop in spatial if _extent(sch, loop) > 1]
    outer, inner, lanes = spatial, [], 1
    if moving:
        last = moving[-1]
        place = spatial.index(last)
        lanes = lanes_of(_extent(sch, last))
        if lanes > 1:
            over, vector = sch.split(last, [None, lanes])
            outer, inner = [*spatial[:place], over, *spatial[place + 1 :]], [vector]
        elif len(spatial) > 1 and not in_row:
            # The compiler makes vectors of the last loop itself, and minds its end.
            outer, inner = [*spatial[:place], *spatial[place + 1 :]], [last]
    if inner or (outer and sums):
        sch.reorder(*outer, *sums, *inner)
    if outer and work >= MIN_PARALLEL and not in_row:
        sch.parallel(sch.fuse(*outer))
    if lanes > 1:
        sch.vectorize(*inner)
    if sums:
        sch.decompose_reduction(block, sums[0])
