"""From a partition of core ATen to an ``onnx_ir`` model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import torch_private
from dynamo_ext.backends.freeze import duplicate
from dynamo_ext.backends.single_operation import operator_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import GraphModule, Node


_CUT_UP = (
    # torch.onnx's own conversion gives the running variance without Bessel's correction.
    "_native_batch_norm_legit_functional.default",
    "_native_batch_norm_legit.no_stats",
    # It makes up the total weight, by which the backward graph divides.
    "nll_loss_forward.default",
    "nll_loss2d_forward.default",
    # It takes the logarithm of a sum of exponentials, which overflow.
    "logaddexp.default",
    "logaddexp2.default",
    # It multiplies what a beta of zero must not let count: memory that nobody wrote, often.
    "baddbmm.default",
    # Operators, most of them of backward graphs, that torch.onnx does not know.
    "native_batch_norm_backward.default",
    "nll_loss2d_backward.default",
    "native_layer_norm_backward.default",
    "native_group_norm_backward.default",
    "_softmax_backward_data.default",
    "_log_softmax_backward_data.default",
    "gelu_backward.default",
    "threshold_backward.default",
    "embedding_dense_backward.default",
    "nll_loss_backward.default",
    "squeeze.dims",
    "var.correction",
    "var_mean.correction",
)


def decompositions(
    table: dict[Any, Callable[..., Any]], *, training: bool
) -> dict[Any, Callable[..., Any]]:
    """The table without operators that the exporter knows whole, and with some that it should not.

    Parameters
    ----------
    table
        Core ATen's decompositions.
    training
        Whether forward and backward graphs are to come: attention stays whole in them.
    """
    registered = torch_private.onnx_registry().functions
    kept = {op: cut for op, cut in table.items() if operator_name(op) not in registered}
    if not training:
        kept |= _split_attention()
    cut_up = torch_private.decompositions_of(_CUT_UP)
    return kept | cut_up | _matrix_vector() | _root() | _clamping()


def _matrix_vector() -> dict[Any, Callable[..., Any]]:
    """Matrix by vector as matrix by matrix: ONNX Runtime fuses a transposition wrongly there."""
    import torch

    def product(matrix: Any, vector: Any) -> Any:
        return torch.mm(matrix, vector.unsqueeze(1)).squeeze(1)

    return {torch.ops.aten.mv.default: product}


def _root() -> dict[Any, Callable[..., Any]]:
    """The power of a half as the root, which it is to torch: of -inf it is NaN and not inf."""
    import torch

    def power(x: Any, exponent: Any) -> Any:
        if exponent == 0.5 and x.is_floating_point():  # noqa: PLR2004 - a half
            return torch.sqrt(x)
        return NotImplemented

    return {torch.ops.aten.pow.Tensor_Scalar: power}


def _clamping() -> dict[Any, Callable[..., Any]]:
    """Both bounds said: where one is missing, ONNX Runtime makes infinity the largest number."""
    import torch

    clamp = torch.ops.aten.clamp.default

    def both(x: Any, least: Any = None, most: Any = None) -> Any:
        bound = most if least is None else least
        one = (least is None) != (most is None)
        if not (one and x.is_floating_point() and isinstance(bound, (int, float))):
            return NotImplemented
        # Both of one type: torch.onnx finds no operator for an integer beside infinity.
        bound = float(bound)
        return clamp(x, bound, math.inf) if most is None else clamp(x, -math.inf, bound)

    return {
        clamp: both,
        torch.ops.aten.clamp_min.default: both,
        torch.ops.aten.clamp_max.default: lambda x, most: both(x, None, most),
    }


def _split_attention() -> dict[Any, Callable[..., Any]]:
    """Attention cut up where it has a mask, or fewer keys' heads than queries'.

    Whole, a row masked throughout would become NaN, and shared heads do not load.
    """

    def decide(cut: Callable[..., Any]) -> Callable[..., Any]:
        def attention(q: Any, k: Any, *args: Any, attn_mask: Any = None, **kwargs: Any) -> Any:
            if attn_mask is None and q.shape[1] == k.shape[1]:
                return NotImplemented
            return cut(q, k, *args, attn_mask=attn_mask, **kwargs)

        return attention

    return {op: decide(cut) for op, cut in torch_private.attention_decomposition().items()}


def single(node: Node) -> Any:
    """A model of one node alone, its inputs as the model's."""
    from torch.fx import Graph, GraphModule

    graph = Graph()
    inputs: dict[Any, Any] = {}
    for source in node.all_input_nodes:
        inputs[source] = graph.placeholder(source.name)
        inputs[source].meta = dict(source.meta)
    made = graph.node_copy(node, lambda source: inputs[source])
    made.meta = {"val": node.meta.get("val")}
    values = node.meta.get("val")
    if isinstance(values, (tuple, list)):
        import operator

        outputs = []
        for index, value in enumerate(values):
            if value is None:
                continue
            item = graph.call_function(operator.getitem, (made, index))
            item.meta = {"val": value}
            outputs.append(item)
        graph.output(tuple(outputs))
    else:
        graph.output((made,))
    return translate(GraphModule({}, graph), fold=False)


def translate(graph: GraphModule, *, fold: bool = True) -> Any:
    """An ``onnx_ir.Model`` whose inputs and outputs are the graph's, in order.

    Parameters
    ----------
    graph
        Core ATen; constants are ``get_attr`` nodes. Left as it is.
    fold
        Fold constants and drop dead nodes, as ``torch.onnx.export`` does.

    Raises
    ------
    Exception
        Whatever torch.onnx raises on an operator that it cannot convert.
    """
    import onnx_ir

    graph = duplicate(graph)
    constants = _as_placeholders(graph)
    torch_private.onnx_promote_types(graph)
    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    for node in graph.graph.nodes:
        # Provenance is formatted into each ONNX node, which costs more than the conversion.
        node.meta["nn_module_stack"] = {}
        node.meta.pop("stack_trace", None)
    model = onnx_ir.Model(
        onnx_ir.Graph([], [], nodes=[], name="partition"),
        ir_version=torch_private.onnx_ir_version(),
    )
    torch_private.onnx_translate(graph, model)
    values = list(model.graph.inputs)
    model.graph.inputs.clear()
    for count, (name, value) in enumerate(zip(names, values, strict=True)):
        if name not in constants:
            value.name = f"in_{len(model.graph.inputs)}"
            model.graph.inputs.append(value)
            continue
        value.name = f"constant_{count}"
        value.const_value = torch_private.onnx_constant(constants[name], value.name)
        model.graph.initializers[value.name] = value
    _separate_outputs(model)
    if fold:
        from onnxscript import optimizer

        optimizer.optimize_ir(model)
    return model


def _as_placeholders(graph: GraphModule) -> dict[str, Any]:
    """Make constants into placeholders, by name: the exporter computes on nothing else.

    Its functions write ``weight + eps``, which an ``onnx_ir`` initializer does not understand.
    """
    constants = {}
    for node in list(graph.graph.nodes):
        if node.op != "get_attr":
            continue
        with graph.graph.inserting_before(node):
            made = graph.graph.placeholder(f"constant_{node.name}")
        made.meta = dict(node.meta)
        constants[made.name] = getattr(graph, str(node.target)).contiguous()
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
