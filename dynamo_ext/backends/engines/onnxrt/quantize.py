"""Products of constant weights in eight bits, by ONNX Runtime's own tools.

Dynamically, and convolutions in ranges that calls of a partition had.
"""

import math
import sys
import tempfile
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import precision
from dynamo_ext.backends.fx_graph import is_view

_PRODUCTS = ("Gemm", "MatMul")
_CONVOLUTION = "Conv"
_QUANTISED = ("MatMulInteger", "DynamicQuantize", "QuantizeLinear")


def value_names(graph: GraphModule, names: Collection[str]) -> set[str]:
    """What results of a partition may be called in its model.

    A batch norm takes in the convolution before it, and a product a view of its result.
    """
    nodes = [node for node in graph.graph.nodes if node.name in names]
    # The list grows while it is gone through.
    for node in nodes:
        for user in node.users:
            if "batch_norm" in str(user.target):
                nodes += user.users
            elif is_view(user) or "_unsafe_view" in str(user.target):
                nodes.append(user)
    outputs: Any = graph.graph.output_node().args[0]
    places = {node: f"out_{place}" for place, node in reversed(list(enumerate(outputs)))}
    return {name for node in nodes for name in (node.name, places.get(node, node.name))}


def quantized(
    model: Any, calls: Sequence[Sequence[Any]] = (), full: Collection[str] = ()
) -> tuple[Any, int | None]:
    """An ``onnx_ir`` model with its products in int8: weights now, activations at each call.

    And how many operations the products are that are in int8, ``None`` with symbolic sizes.
    ``calls`` are inputs of the model; where there are any, convolutions are in int8, too, in the
    ranges that their activations had then. ``full`` names the products that stay in float32.

    Weights have a scale for each column, or output channel. Raises ``StayEager`` where nothing is
    quantised.
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
    asked = {node.outputs[0].name: _operations(node) for node in _products(model)}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "model.onnx"
        quantize_dynamic(
            onnx_ir.to_proto(model),
            made,
            op_types_to_quantize=_PRODUCTS,
            # Of a Gemm it makes a product of another name before it looks.
            nodes_to_exclude=[
                name
                for node in _products(model)
                if node.outputs[0].name in full
                for name in (node.name, f"{node.name}_MatMul")
            ],
            per_channel=True,
            # With VNNI the kernels of unsigned weights take twice the time.
            weight_type=QuantType.QInt8 if precision.has_vnni() else QuantType.QUInt8,
        )
        if calls:
            _quantize_convolutions(made, calls, full)
        found = onnx_ir.load(made)
    if not any(node.op_type.startswith(_QUANTISED) for node in found.graph):
        unknown = not calls and any(node.op_type == _CONVOLUTION for node in found.graph)
        raise precision.nothing_to_round(engine="ONNX Runtime", convolutions=unknown)
    # Where a Gemm is not quantised, it has become a product and a sum.
    whole = {
        node.outputs[0].name.removesuffix("_MatMul")
        for node in _products(found)
        if getattr(node.inputs[1].producer(), "op_type", "") != "DequantizeLinear"
    }
    lowered = [operations for name, operations in asked.items() if name not in whole]
    total = sum(each for each in lowered if each is not None)
    return found, None if None in lowered else total


def _quantize_convolutions(
    path: Path, calls: Sequence[Sequence[Any]], full: Collection[str]
) -> None:
    """Quantise those of a stored model that have constant weights."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_static

    model = onnx.load(path)
    constants = {each.name for each in model.graph.initializer}
    chosen = [
        node.name
        for node in model.graph.node
        if node.op_type == _CONVOLUTION
        and node.input[1] in constants
        and node.output[0] not in full
    ]
    names = [each.name for each in model.graph.input]
    inputs = (
        dict(zip(names, (torch.as_tensor(each).cpu().numpy() for each in call), strict=True))
        for call in calls
    )
    if chosen:
        quantize_static(
            path,
            path,
            SimpleNamespace(get_next=partial(next, inputs, None)),
            op_types_to_quantize=[_CONVOLUTION],
            nodes_to_quantize=chosen,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            reduce_range=not precision.has_vnni(),
        )


def _products(model: Any) -> list[Any]:
    return [node for node in model.graph if node.op_type in (*_PRODUCTS, _CONVOLUTION)]


def _operations(node: Any) -> int | None:
    """Operations of a product: its rows times the elements of a matrix of weights, twice.

    Of a convolution its results, times those of one output channel.
    """
    out, weight = (value.shape for value in (node.outputs[0], node.inputs[1]))
    if out is None or weight is None or not (out.is_static() and weight.is_static()):
        return None
    results, weights = out.numpy(), weight.numpy()
    if node.op_type == _CONVOLUTION:
        return 2 * int(math.prod(results) * math.prod(weights[1:]))
    return 2 * int(math.prod(results[:-1]) * math.prod(weights[-2:]))
