"""GELU as ONNX Runtime knows it: from torch.onnx's own formula it fuses nothing."""

import math
from typing import Any

from dynamo_ext.backends.engines.onnx.recurrent import opset


def gelu(x: Any, approximate: str = "none") -> Any:
    """``aten::gelu``."""
    import onnx_ir

    if approximate != "none":
        from onnxscript.function_libs.torch_lib.ops import nn

        return nn.aten_gelu(x, approximate)
    op = opset()

    def number(value: float) -> Any:
        return op.Constant(value=onnx_ir.tensor(value, x.dtype))

    erf = op.Erf(op.Div(x, number(math.sqrt(2))))
    return op.Mul(op.Mul(x, number(0.5)), op.Add(erf, number(1)))
