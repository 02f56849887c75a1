"""Dynamic quantisation: products of constant weights in eight bits, by ONNX Runtime's own tool."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from dynamo_ext.backends import precision

_PRODUCTS = ("Gemm", "MatMul")


def quantized(model: Any) -> Any:
    """An ``onnx_ir`` model with its products in int8: weights now, activations at each call.

    Weights have a scale for each column. They are unsigned: without VNNI the signed kernels of
    ONNX Runtime add two products in 16 bits, and saturate. Raises ``StayEager`` where no product
    has constant weights.
    """
    import onnx_ir
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxscript import optimizer

    # A linear layer's weights are constants once they are transposed; by default large ones are
    # left for the engine to transpose.
    optimizer.fold_constants(
        model,
        should_fold=lambda node: node.op_type == "Transpose" or None,
        output_size_limit=sys.maxsize,
    )
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "model.onnx"
        quantize_dynamic(
            onnx_ir.to_proto(model),
            made,
            op_types_to_quantize=_PRODUCTS,
            per_channel=True,
            weight_type=QuantType.QUInt8,
        )
        found = onnx_ir.load(made)
    if not any(
        node.op_type.startswith(("MatMulInteger", "DynamicQuantize")) for node in found.graph
    ):
        raise precision.no_constant_weights(engine="ONNX Runtime")
    return found
