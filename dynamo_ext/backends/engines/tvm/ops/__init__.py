"""Conversions of operations: the files that hold them register them when they are imported."""

from dynamo_ext.backends.engines.tvm.convert import CONVERTERS
from dynamo_ext.backends.engines.tvm.ops import (
    conv_pool,
    data_movement,
    elementwise,
    indexing,
    matmul,
    reductions,
)

__all__ = ["CONVERTERS"]

_FILLED_BY = (conv_pool, data_movement, elementwise, indexing, matmul, reductions)
