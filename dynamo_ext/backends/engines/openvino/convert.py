"""From a partition of core ATen to an OpenVINO model."""

import functools
import sys
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.engines.openvino.rewritten import REWRITTEN
from dynamo_ext.backends.fx_graph import duplicate, replace
from dynamo_ext.backends.support.single_op import operator_name, used


@functools.cache
def package() -> Any:
    """The ``openvino`` package, imported without the telemetry that its import would send.

    OpenVINO does without ``openvino_telemetry`` where that cannot be imported.
    """
    blocked = "openvino_telemetry" not in sys.modules
    if blocked:
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    try:
        import openvino
    finally:
        if blocked:
            del sys.modules["openvino_telemetry"]
    return openvino


@functools.cache
def _frontend() -> Any:
    manager = package().frontend.FrontEndManager()
    return manager.load_by_framework("pytorch"), manager


def prepare(graph: GraphModule, spared: Collection[str] = ()) -> GraphModule:
    """A copy of a partition as the frontend wants it, and as it converts it rightly.

    The operations named ``spared`` are converted rightly as they are.
    """
    graph = duplicate(graph)
    for node in list(graph.graph.nodes):
        node.meta.pop("tensor_meta", None)
        if node.op == "placeholder":
            value = node.meta["val"]
            shape = torch.Size([int(size) for size in value.shape])
            strides = torch.empty(shape, device="meta").stride()
            node.meta["tensor_meta"] = SimpleNamespace(
                shape=shape, dtype=value.dtype, stride=strides
            )
        elif node.op == "get_attr":
            # The frontend reads through a bare pointer what it makes contiguous itself.
            setattr(graph, str(node.target), getattr(graph, str(node.target)).contiguous())
        elif node.name in spared:
            continue
        elif used(node) in ([], [0]) and (written := REWRITTEN.get(operator_name(node.target))):
            replace(node, functools.partial(written, torch.ops.aten))
    return graph


def distinct(graph: GraphModule) -> list[int]:
    """Make the graph's outputs distinct; for each former output, the place of it among them.

    Operations that change nothing go: the frontend makes one value of both sides, and then
    cannot tell their names apart.
    """
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and _changes_nothing(node):
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    output = graph.graph.output_node()
    former: Any = output.args[0]
    different = list(dict.fromkeys(former))
    output.args = (tuple(different),)
    graph.recompile()
    return [different.index(node) for node in former]


def _changes_nothing(node: Node) -> bool:
    source: Any = node.args[0] if node.args else None
    before: Any = getattr(source, "meta", {}).get("val")
    after: Any = node.meta.get("val")
    name = operator_name(node.target)
    if name in ("aten::clone", "aten::alias", "aten::detach", "aten::lift_fresh_copy"):
        return True
    if name.startswith(("aten::expand", "aten::view", "aten::slice.T", "aten::_to_copy")):
        shapes = getattr(before, "shape", None), getattr(after, "shape", ())
        return shapes[0] == shapes[1] and before.dtype == after.dtype
    return name == "aten::permute" and list(node.args[1]) == sorted(node.args[1])  # type: ignore[arg-type]


def convert(graph: GraphModule) -> Any:
    """An ``openvino.Model`` whose inputs and outputs are the graph's, in order.

    The graph, from ``prepare``, must live as long as the model, which shares its constants.
    """
    frontend, _ = _frontend()
    from openvino.frontend.pytorch.fx_decoder import TorchFXPythonDecoder
    from openvino.frontend.pytorch.utils import pt_to_ov_type_map
    from openvino.preprocess import PrePostProcessor

    decoder = TorchFXPythonDecoder(graph)
    model = frontend.convert(frontend.load(decoder))
    outputs: Any = graph.graph.output_node().args[0]
    wanted = [pt_to_ov_type_map[str(node.meta["val"].dtype)] for node in outputs]
    if len(model.outputs) != len(wanted):
        message = f"{len(model.outputs)} results came where {len(wanted)} were expected"
        raise RuntimeError(message)
    if any(o.get_element_type() != kind for o, kind in zip(model.outputs, wanted, strict=True)):
        processor = PrePostProcessor(model)
        for position, kind in enumerate(wanted):
            processor.output(position).tensor().set_element_type(kind)
        model = processor.build()
    return model
