"""Dynamic quantisation: products of constant weights in eight bits, by ONNX Runtime's own tool."""

import math
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dynamo_ext.backends import precision

_PRODUCTS = ("Gemm", "MatMul")


def quantized(model: Any) -> tuple[Any, int | None]:
    """An ``onnx_ir`` model with its products in int8: weights now, activations at each call.

    And how many operations the products are that are in int8, ``None`` with symbolic sizes.

    Weights have a scale for each column. Raises ``StayEager`` where no product has constant
    weights.
    """
    import onnx_ir
    from onnxruntime.quantization import quantize_dynamic
    from onnxscript import optimizer

    # A linear layer's weights are constants once they are transposed; by default large ones are
    # left for the engine to transpose.
    optimizer.fold_constants(
        model,
        should_fold=lambda node: node.op_type == "Transpose" or None,
        output_size_limit=sys.maxsize,
    )
    asked = {node.outputs[0].name: _operations(node) for node in _products(model)}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "model.onnx"
        quantize_dynamic(
            onnx_ir.to_proto(model),
            made,
            op_types_to_quantize=_PRODUCTS,
            per_channel=True,
            weight_type=_weight_type(),
        )
        found = onnx_ir.load(made)
    if not any(
        node.op_type.startswith(("MatMulInteger", "DynamicQuantize")) for node in found.graph
    ):
        raise precision.no_constant_weights(engine="ONNX Runtime")
    # Where a Gemm is not quantised, it has become a product and a sum.
    kept = {node.outputs[0].name.removesuffix("_MatMul") for node in _products(found)}
    lowered = [operations for name, operations in asked.items() if name not in kept]
    total = sum(each for each in lowered if each is not None)
    return found, None if None in lowered else total


def _weight_type() -> Any:
    """Signed with VNNI, which multiplies unsigned activations by signed weights; else unsigned.

    With VNNI the kernels of unsigned weights take twice the time. Without it those of signed ones
    add two products in 16 bits, which overflows.
    """
    import torch
    from onnxruntime.quantization import QuantType

    # An older torch does not say what the processor has.
    found: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    vnni = found.get("avx512_vnni") or found.get("avx_vnni")
    return QuantType.QInt8 if vnni else QuantType.QUInt8


def _products(model: Any) -> list[Any]:
    return [node for node in model.graph if node.op_type in _PRODUCTS]


def _operations(node: Any) -> int | None:
    """Operations of a product: its rows times the elements of a matrix of weights, twice."""
    out, weight = (value.shape for value in (node.outputs[0], node.inputs[1]))
    if out is None or weight is None or not (out.is_static() and weight.is_static()):
        return None
    return 2 * int(math.prod(out.numpy()[:-1]) * math.prod(weight.numpy()[-2:]))
