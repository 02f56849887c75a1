"""Views of known sizes: from torch.onnx each size is a constant, which later passes join again."""

from collections.abc import Sequence
from typing import Any

from dynamo_ext.backends.engines.onnx.recurrent import opset


def view(x: Any, size: Sequence[Any]) -> Any:
    """``aten::view``."""
    return opset().Reshape(x, _shape(size), allowzero=True)


def expand(x: Any, size: Sequence[Any], implicit: bool = False) -> Any:  # noqa: FBT001, FBT002 - ATen's own signature
    """``aten::expand``; one for ONNX is what ATen writes as minus one."""
    del implicit
    return opset().Expand(x, _shape([1 if _is(each, -1) else each for each in size]))


def _shape(size: Sequence[Any]) -> Any:
    if size and all(isinstance(each, int) for each in size):
        return opset().Constant(value_ints=list(size))
    from onnxscript.function_libs.torch_lib.ops import common

    return common.merge_dims(size)


def _is(size: Any, number: int) -> bool:
    return isinstance(size, int) and size == number
