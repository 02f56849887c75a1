"""From a partition of core ATen to an ``onnx_ir`` model."""

import math
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.engines.onnx import torch_private
from dynamo_ext.backends.fx_graph import FROZEN, duplicate, is_frozen
from dynamo_ext.backends.support.single_op import alone, results, set_meta_values
from dynamo_ext.torch_private import fx_nodes


def single(node: Node) -> Any:
    """A model of one node alone, its inputs as the model's."""
    graph = alone(node, node.all_input_nodes)
    set_meta_values(
        graph, [source.meta.get("val") for source in node.all_input_nodes], [*results(node)]
    )
    return translate(graph, fold=False)


def translate(graph: GraphModule, *, fold: bool = True, whole_weights: bool = False) -> Any:
    """An ``onnx_ir.Model`` whose inputs and outputs are a core ATen graph's, in order.

    With ``fold``, constants are folded and dead nodes dropped, as ``torch.onnx.export`` does. With
    ``whole_weights``, weights that were made constants are initializers of the graph's names, and
    are not folded; a norm may still be taken into some of them.
    """
    import onnx_ir

    graph = duplicate(graph)
    _keep_precision(graph)
    _limits_of_one_type(graph)
    constants = _as_placeholders(graph)
    torch_private.onnx_promote_types(graph)
    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    for node in graph.graph.nodes:
        # Provenance is formatted into each ONNX node, which costs more than the conversion.
        node.meta["nn_module_stack"] = {}
        node.meta.pop("stack_trace", None)
    model = torch_private.onnx_translate(graph)
    values = list(model.graph.inputs)
    model.graph.inputs.clear()
    for count, (name, value) in enumerate(zip(names, values, strict=True)):
        if name not in constants:
            value.name = f"in_{len(model.graph.inputs)}"
            model.graph.inputs.append(value)
            continue
        node, tensor = constants[name]
        weight = whole_weights and is_frozen(node)
        value.name = str(node.target) if weight else f"constant_{count}"
        value.const_value = onnx_ir.tensor_adapters.TorchTensor(tensor, value.name)
        model.graph.initializers[value.name] = value
    _separate_outputs(model)
    if fold:
        _optimize(model, whole_weights=whole_weights)
    return model


def _optimize(model: Any, *, whole_weights: bool) -> None:
    """Fold constants and drop dead nodes; take batch norms, and what reshapes, into products.

    Of onnxscript's rewrites these are the ones that engines do not do themselves, or that
    quantisation needs. Others of its default take 1e-15 for zero, or name two constants alike.
    """
    from onnx_ir.passes import common as passes
    from onnxscript import optimizer, rewriter
    from onnxscript.rewriter.rules import common as rules

    optimizer.inline(model)
    # Constants are cast to the types of values, which the exporter leaves out.
    passes.ShapeInferencePass(strict_mode=False)(model)
    weights = {name for name in model.graph.initializers if name.startswith(FROZEN)}
    optimizer.fold_constants(
        model,
        should_fold=lambda node: (
            False if any(each and each.name in weights for each in node.inputs) else None
        ),
    )
    # ONNX Runtime does the first one itself; quantisation needs it, and TensorFlow.
    rewriter.rewrite(
        model,
        [
            *(() if whole_weights else (rules.fuse_batchnorm_into_conv_rule,)),
            rules.fuse_batchnorm_into_conv_transpose_rule,
            rules.fuse_batchnorm_into_gemm_rule,
            rules.two_reshapes_matmul_reshape_rule,
            rules.one_reshape_matmul_reshape_rule,
            rules.reshape_reshape_rule,
            rules.transpose_transpose_rule,
            rules.no_op_expand_rule,
        ],
    )
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    if not whole_weights:
        passes.DeduplicateInitializersPass()(model)


def _keep_precision(graph: GraphModule) -> None:
    """Numbers beside float64 as constants of that type: the exporter makes float32 of them."""
    for node in list(graph.graph.nodes):
        value = node.meta.get("val")
        if not (fx_nodes.is_overload(node.target) and isinstance(value, torch.Tensor)):
            continue
        given = [value, *(each.meta.get("val") for each in node.all_input_nodes)]
        if all(getattr(each, "dtype", None) is not torch.float64 for each in given):
            continue
        for position, number in enumerate(node.args):
            if isinstance(number, float) and fx_nodes.takes_tensor(node, position):
                exact = torch.tensor(number, dtype=torch.float64)
                name = f"number_{node.name}_{position}"
                graph.register_buffer(name, exact)
                with graph.graph.inserting_before(node):
                    made = graph.graph.get_attr(name)
                made.meta["val"] = value.new_empty((), dtype=torch.float64)
                node.update_arg(position, made)


def _limits_of_one_type(graph: GraphModule) -> None:
    """Limits of a clamp of floating-point numbers as such, and infinity for one that is missing.

    The exporter takes an integer for a tensor, and has no overload for it beside a float. Without
    one of the limits ONNX Runtime makes infinity the largest number.
    """
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.clamp.default):
        x, *limits = fx_nodes.arguments(node).values()
        numbers = [limit for limit in limits if isinstance(limit, (int, float))]
        known = all(limit is None or limit in numbers for limit in limits)
        floats = x.meta["val"].is_floating_point() or float in map(type, numbers)
        if known and floats:
            pairs = zip(limits, (-math.inf, math.inf), strict=True)
            node.args = (x, *(end if limit is None else float(limit) for limit, end in pairs))
            node.kwargs = {}


def _as_placeholders(graph: GraphModule) -> dict[str, tuple[Node, torch.Tensor]]:
    """Make constants into placeholders: the exporter computes on nothing else.

    By name, the former nodes and the tensors, row-major.

    Its functions write ``weight + eps``, which an ``onnx_ir`` initializer does not understand.
    """
    constants = {}
    for node in list(graph.graph.nodes):
        if node.op != "get_attr":
            continue
        with graph.graph.inserting_before(node):
            made = graph.graph.placeholder(f"constant_{node.name}")
        made.meta = dict(node.meta)
        constants[made.name] = node, getattr(graph, str(node.target)).contiguous()
        node.replace_all_uses_with(made)
        graph.graph.erase_node(node)
    graph.recompile()
    return constants


def _separate_outputs(model: Any) -> None:
    """Give each output a value of its own: ATen may return an input, or one value twice."""
    import onnx_ir

    taken = set(map(id, model.graph.inputs)) | set(map(id, model.graph.initializers.values()))
    for position, value in enumerate(list(model.graph.outputs)):
        own = value
        if id(value) in taken:
            copy = onnx_ir.node("Identity", [value])
            model.graph.append(copy)
            own = copy.outputs[0]
            own.dtype, own.shape = value.dtype, value.shape
            model.graph.outputs[position] = own
        taken.add(id(own))
        own.name = f"out_{position}"
