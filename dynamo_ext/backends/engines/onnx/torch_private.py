"""The parts of torch's ONNX exporter that translate one operation."""

import contextlib
import functools
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.support.quiet import quiet
from dynamo_ext.torch_private.dispatch import fake_mode
from dynamo_ext.torch_private.fx_nodes import is_overload, overload


def quiet_exporter() -> contextlib.AbstractContextManager[None]:
    """Keep torch.onnx, onnxscript and onnx_ir from printing, logging and warning in a cell."""
    return quiet("torch.onnx", "onnxscript", "onnx_ir")


@functools.cache
def onnx_registry() -> Any:
    """The exporter's table from ATen operators to ONNX functions (half a second, once).

    With our own functions in the place of some of its.
    """
    from dynamo_ext.backends.engines.onnx.functions import FUNCTIONS

    with quiet_exporter():
        # Imported first, so that their loggers exist by the time that they are silenced.
        from torch.onnx._internal.exporter import _core, _registration

    del _core
    with quiet_exporter():
        registry = _registration.ONNXRegistry.from_torchlib()
        for name, function in FUNCTIONS.items():
            registry.register_op(overload(name), function)
    return registry


def onnx_function(node: Node) -> Any:
    """The ONNX function for a node; ``None`` where the exporter has none."""
    from torch.onnx._internal.exporter import _dispatching

    function, _ = _dispatching.dispatch(node, onnx_registry())
    return function


def onnx_promote_types(graph: GraphModule) -> None:
    """Insert the casts that ATen does silently and ONNX does not, in place."""
    from torch._guards import tracing
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.onnx._internal.fx import passes

    nodes = list(graph.graph.nodes)
    real = not any(isinstance(node.meta.get("val"), FakeTensor) for node in nodes)
    if real:
        mode = fake_mode()
        for node in nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                node.meta["val"] = mode.from_tensor(value)
    # The pass would take the mode of a compilation under way before that of the values.
    with tracing(None) if real else contextlib.nullcontext():
        insertion = passes.InsertTypePromotion(graph)
        interpreter: Any = insertion.interpreter

        def promote(node: Node) -> Any:
            # Upstream runs each operation again, which takes longer than all else in a conversion.
            table = interpreter.type_promotion_table
            rule = is_overload(node.target) and table.get_rule(node.target.overloadpacket)  # type: ignore[union-attr]
            if rule:
                with interpreter._set_current_node(node):
                    interpreter._maybe_promote_node(node, rule)
            return node.meta.get("val")

        interpreter.run_node = promote
        insertion.run()


def onnx_translate(graph: GraphModule) -> Any:
    """An ATen graph without ``get_attr`` nodes as an ``onnx_ir.Model``.

    The model's inputs and outputs have the order of the graph's.
    """
    import onnx_ir
    from torch.onnx._internal.exporter import _constants, _core, _ir_passes

    empty = onnx_ir.Graph([], [], nodes=[], name="partition")
    model = onnx_ir.Model(empty, ir_version=_constants.ONNX_IR_VERSION)
    _core._translate_fx_graph(
        graph.graph,
        model,
        graph_like=model.graph,
        owned_graphs={},
        lower="at_conversion",
        registry=onnx_registry(),
    )
    _ir_passes.add_opset_imports(model)
    # A model in which nothing is left to compute uses no opset, and must name one.
    model.opset_imports.setdefault("", _constants.TORCHLIB_OPSET)
    return model
