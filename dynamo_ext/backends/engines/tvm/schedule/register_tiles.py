"""The vector registers of a CPU, and the tiles of a product that fit them.

A tile's results stay in registers while its sums run: with too few of them the processor waits
for each multiplication, and with more than there is room for, they are written to memory and read
again at every step. AVX-512 has 32 registers of 16 ``float32``, AVX2 16 of 8, NEON 32 of 4. The
tiles for AVX-512 and AVX2 were chosen by timing; those for NEON and SSE by the same arithmetic.
"""

import functools
from dataclasses import dataclass
from typing import Any

import torch

from dynamo_ext.backends.engines.tvm import target as tvm_target


@dataclass(frozen=True)
class Registers:
    """What fits a CPU's vector registers, of ``lanes`` elements of ``float32`` each.

    A tile of a matrix product has ``rows`` of two registers where their number is free, and between
    ``fewest_rows`` and ``most_rows`` where they are to divide the matrix's. A tile of a convolution
    has at most ``most_places`` places of an image, of two registers each.
    """

    lanes: int
    rows: int
    most_rows: int
    fewest_rows: int
    most_places: int


AVX512 = Registers(lanes=16, rows=8, most_rows=12, fewest_rows=4, most_places=13)
AVX2 = Registers(lanes=8, rows=6, most_rows=6, fewest_rows=4, most_places=6)
NEON = Registers(lanes=4, rows=8, most_rows=12, fewest_rows=4, most_places=13)
SSE = Registers(lanes=4, rows=6, most_rows=6, fewest_rows=4, most_places=6)

_BY_FEATURE = {"avx512f": AVX512, "avx2": AVX2, "neon": NEON}

ENOUGH = 4
"""Places of two registers with which no multiplication waits for the one before: it takes four
cycles, and two begin in each."""


@functools.cache
def registers() -> Registers:
    """Those of the CPU that this process compiles for."""
    return of(tvm_target.target())


def of(target: Any) -> Registers:
    """Those of a ``tvm.target.Target``."""
    from tvm.target import codegen

    for feature, found in _BY_FEATURE.items():
        if codegen.target_has_features(feature, target):
            return found
    return SSE


def panel_width(columns: int, rows: int) -> int:
    """Columns of a panel: two vectors, four where few rows leave registers idle, one for few."""
    fit = registers()
    if columns <= fit.lanes:
        return fit.lanes
    wide = rows < fit.fewest_rows and columns >= 4 * fit.lanes
    return (4 if wide else 2) * fit.lanes


def tile_rows(rows: int) -> int:
    """Rows of a tile: a divisor of all rows that fits the registers; the usual where none does."""
    fit = registers()
    if rows <= fit.most_rows:
        return rows
    fitting = [r for r in range(fit.fewest_rows, fit.most_rows + 1) if rows % r == 0]
    return min(fitting, key=lambda r: abs(r - fit.rows)) if fitting else fit.rows


def channel_width(channels: int) -> int:
    """Output channels of a tile: two vectors, or one where that leaves less to waste."""
    lanes = registers().lanes
    return 2 * lanes if channels % (2 * lanes) == 0 or channels > 6 * lanes else lanes


def plane_tile(height: int, length: int) -> tuple[int, int]:
    """Rows and columns of a tile of an image, whose places all have sums of their own.

    They divide the image where that fills the registers; else the tiles reach beyond it by as
    little as may be.
    """
    most = registers().most_places

    def worth(tile: tuple[int, int]) -> tuple[float, int, int]:
        rows, columns = tile
        used = height * length / (whole_tiles(height, rows) * whole_tiles(length, columns))
        return used * min(1.0, rows * columns / ENOUGH), columns, rows

    tiles = [(r, c) for c in range(1, most + 1) for r in range(1, most // c + 1)]
    return max(tiles, key=worth)


def whole_tiles(size: int, tile: int) -> int:
    """The least multiple of a tile that is no less than ``size``."""
    return -(-size // tile) * tile


def in_lanes(weights: torch.Tensor, width: int, groups: int = 1) -> torch.Tensor:
    """``(O, I, …)`` to ``(groups * blocks, I, …, width)``, with zeros behind each group's last."""
    parts = weights.detach().reshape(groups, -1, *weights.shape[1:])
    rest = -parts.shape[1] % width
    parts = torch.nn.functional.pad(parts, [0, 0] * (weights.dim() - 1) + [0, rest])
    return parts.reshape(-1, width, *weights.shape[1:]).movedim(1, -1).contiguous()
