"""What OpenVINO ran in which precision, as the compiled model itself says."""

from collections.abc import Mapping
from typing import Any

from torch.fx import GraphModule, map_arg

from dynamo_ext.torch_private.work import product_operations

_TYPES = {"bf16": ("bf16",), "fp16": ("f16",), "int8": ("i8", "u8")}
_PRODUCTS = ("Convolution", "Deconvolution", "FullyConnected", "MatMul")


def products(graph: GraphModule) -> dict[str, int]:
    """The products of a partition by name, and how many operations each is."""
    found = {}
    for node in graph.graph.nodes:
        if node.op == "call_function":
            args, kwargs = map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
            found[node.name] = product_operations(node.target, args, kwargs, node.meta.get("val"))
    return {name: operations for name, operations in found.items() if operations}


def normed(graph: GraphModule) -> dict[str, str]:
    """What each batch norm of a partition reads: a convolution that takes it in has its name."""
    norms = (node for node in graph.graph.nodes if "batch_norm" in str(node.target))
    return {node.name: node.args[0].name for node in norms}


def lowered_operations(
    operations: Mapping[str, int], compiled_model: Any, precision: str, normed: Mapping[str, str]
) -> int:
    """How many operations of the products that were asked for run in a precision.

    The compiled model's nodes name what they were fused from. A product that none names is one of
    those nodes that name no product: it counts if all of these run in that precision.
    """
    lowered: set[str] = set()
    seen: set[str] = set()
    rest = []
    for node in compiled_model.get_runtime_model().get_ops():
        facts = {key: str(value.value) for key, value in node.get_rt_info().items()}
        if facts.get("layerType") not in _PRODUCTS:
            continue
        names = facts.get("originalLayersNames", "").split(",")
        mine = {name.partition("/")[0] for name in names}
        mine = {normed.get(name, name) for name in mine} & operations.keys()
        low = facts.get("runtimePrecision") in _TYPES[precision]
        seen |= mine
        if low:
            lowered |= mine
        if not mine:
            rest.append(low)
    if rest and all(rest):
        lowered |= operations.keys() - seen
    return sum(operations[name] for name in lowered)
