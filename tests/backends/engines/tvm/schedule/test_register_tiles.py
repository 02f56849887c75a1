"""Tiles that fit the registers of a CPU, and are right whatever they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.tvm import target as tvm_target
from dynamo_ext.backends.engines.tvm.schedule import register_tiles
from tests.backends.engine_zoo import gives_what_eager_gives
from tests.needs import needs

needs("tvm")

COUNT = {
    register_tiles.AVX512: 32,
    register_tiles.AVX2: 16,
    register_tiles.NEON: 32,
    register_tiles.SSE: 16,
}
SETS = pytest.mark.parametrize("fit", COUNT, ids=["AVX-512", "AVX2", "NEON", "SSE"])


@pytest.fixture
def with_registers(
    monkeypatch: pytest.MonkeyPatch, fit: register_tiles.Registers
) -> register_tiles.Registers:
    monkeypatch.setattr(register_tiles, "registers", lambda: fit)
    return fit


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("znver3", register_tiles.AVX2),
        ("haswell", register_tiles.AVX2),
        ("znver4", register_tiles.AVX512),
        ("skylake-avx512", register_tiles.AVX512),
        ("x86-64", register_tiles.SSE),
    ],
)
def test_a_cpu_has_the_registers_of_its_instructions(
    name: str, expected: register_tiles.Registers
) -> None:
    tvm = tvm_target.package()
    target = tvm.target.Target({"kind": "llvm", "mcpu": name, "mtriple": "x86_64-linux-gnu"})
    assert register_tiles.of(target) is expected


@SETS
@pytest.mark.usefixtures("with_registers")
def test_a_tile_and_what_it_is_made_of_fit_the_registers(fit: register_tiles.Registers) -> None:
    for size in range(1, 60):
        rows, columns = register_tiles.plane_tile(size, size)
        assert rows * columns * 2 + 3 <= COUNT[fit]
        assert register_tiles.tile_rows(size) * 2 + 3 <= COUNT[fit]


@SETS
@pytest.mark.usefixtures("with_registers")
@pytest.mark.parametrize("size", [7, 13, 14, 17, 19, 23, 27, 28, 55, 56, 112])
def test_no_image_leaves_the_registers_empty(size: int, fit: register_tiles.Registers) -> None:
    rows, columns = register_tiles.plane_tile(size, size)
    wide = register_tiles.whole_tiles(size, rows) * register_tiles.whole_tiles(size, columns)
    assert rows * columns >= register_tiles.ENOUGH
    assert wide <= 1.25 * size * size
    if fit is register_tiles.AVX512 and size in {7, 13, 14, 28, 55, 56, 112}:
        assert wide == size * size


BOTH = pytest.mark.parametrize(
    "fit", [register_tiles.AVX2, register_tiles.AVX512], ids=["AVX2", "AVX-512"]
)


def right_and_in_tvm(harness: Any, model: nn.Module, x: torch.Tensor) -> None:
    compiler = registry.compiler("tvm", {"verify": False, "min_partition": 1})
    with torch.no_grad():
        gives_what_eager_gives(harness, compiler, (lambda x: torch.relu(model(x)), (x,)))
    assert set(harness.engines) == {"tvm"}


@BOTH
@pytest.mark.usefixtures("with_registers")
@pytest.mark.parametrize("size", [9, 13, 17])
@pytest.mark.parametrize(
    ("inputs", "channels", "options"),
    [(3, 20, {}), (8, 32, {"padding": 1, "stride": 2}), (6, 12, {"groups": 3, "dilation": 2})],
)
def test_convolutions_whose_tiles_do_not_divide_the_image(
    harness: Any, size: int, inputs: int, channels: int, options: dict[str, Any]
) -> None:
    layer = nn.Conv2d(inputs, channels, 3, **options).eval()
    right_and_in_tvm(harness, layer, torch.randn(2, inputs, size, size))


@BOTH
@pytest.mark.usefixtures("with_registers")
@pytest.mark.parametrize("rows", [1, 3, 5, 11, 64, 197])
def test_products_of_any_number_of_rows(harness: Any, rows: int) -> None:
    right_and_in_tvm(harness, nn.Linear(24, 40).eval(), torch.randn(rows, 24))
