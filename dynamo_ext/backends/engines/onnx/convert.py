"""From a partition of core ATen to an ``onnx_ir`` model."""

import threading
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.engines.onnx import torch_private
from dynamo_ext.backends.fx_graph import duplicate
from dynamo_ext.backends.support.single_op import alone, results, set_meta_values
from dynamo_ext.torch_private import fx_nodes


def single(node: Node) -> Any:
    """A model of one node alone, its inputs as the model's."""
    graph = alone(node, node.all_input_nodes)
    set_meta_values(
        graph, [source.meta.get("val") for source in node.all_input_nodes], [*results(node)]
    )
    return translate(graph, fold=False)


def translate(graph: GraphModule, *, fold: bool = True) -> Any:
    """An ``onnx_ir.Model`` whose inputs and outputs are a core ATen graph's, in order.

    With ``fold``, constants are folded and dead nodes dropped, as ``torch.onnx.export`` does.
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
        value.name = f"constant_{count}"
        value.const_value = onnx_ir.tensor_adapters.TorchTensor(constants[name], value.name)
        model.graph.initializers[value.name] = value
    _separate_outputs(model)
    if fold:
        _optimize(model)
    return model


def _optimize(model: Any) -> None:
    """Fold and rewrite a model in place, as onnxscript does by default.

    Two kinds of its rules are left out. The one that makes one Split of two Slices compares every
    node with all nodes of the graph, so that a graph of 10,000 nodes takes minutes, and ONNX
    Runtime's own optimised graph is the same without it. Those that drop ``x + 0`` and ``x * 1``
    take 1e-15 for zero, so that ``log(x + 1e-15)`` would be minus infinity; engines drop them.
    """
    from onnxscript import optimizer, rewriter
    from onnxscript.rewriter.rules import common

    with _REWRITING:
        # Which rules it applies, no function says. A version that keeps them elsewhere applies all.
        rules = getattr(rewriter, _RULES, ())
        inexact = getattr(getattr(rewriter, _NO_OPS, None), "rules", ())
        left_out = {id(getattr(common, "slice_split_rule", None)), *map(id, inexact)}
        kept = (rule for rule in rules if id(rule) not in left_out)
        setattr(rewriter, _RULES, tuple(map(_RuleOfOneKind, kept)))
        try:
            optimizer.optimize_ir(model)
        finally:
            setattr(rewriter, _RULES, rules)


class _RuleOfOneKind:
    """A rule of onnxscript's that is not tried on nodes of another kind than its last operation.

    It would be tried on every node, which takes most of the time of all the optimisation. The
    constants that it adds get names of their own: onnxscript names the limits of each clip of a
    value alike, so that those of the last one would stand for all.
    """

    def __init__(self, rule: Any) -> None:
        self._rule = rule
        pattern = getattr(rule, "_target_pattern", None)
        last = next(iter(getattr(pattern, "output_nodes", ())), None)
        name = last.op_identifier() if last is not None else None
        # Domain, kind, overload; none where the pattern is of several kinds.
        self._kind = name and name[1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rule, name)

    def try_rewrite(self, model: Any, graph: Any, node: Any, **settings: Any) -> Any:
        """What the rule makes of a node, or ``None``."""
        if self._kind and node.op_type != self._kind:
            return None
        rewritten = self._rule.try_rewrite(model, graph, node, **settings)
        for constant in getattr(rewritten, "new_initializers", ()):
            constant.name = f"{constant.name}_of_{node.outputs[0].name}"
        return rewritten


_REWRITING = threading.Lock()
_RULES, _NO_OPS = "_DEFAULT_REWRITE_RULES", "_no_op"


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
    """Limits of a clamp as 0.0 and 0.5 where one of 0 and 0.5 is a float.

    The exporter has no overload for an integer beside a float.
    """
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.clamp.default):
        limits = node.args[1:]
        if any(isinstance(limit, float) for limit in limits):
            numbers = (float(limit) if isinstance(limit, int) else limit for limit in limits)
            node.args = (node.args[0], *numbers)


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
