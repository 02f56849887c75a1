"""``ts``: TorchScript on partitions of the functional ATen graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.base import Backend, Support, in_torch
from dynamo_ext.backends.engines.torchscript.writer import Writer, written
from dynamo_ext.backends.fx_graph import is_view
from dynamo_ext.errors import one_line
from dynamo_ext.interruptions import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options
    from dynamo_ext.records.common import Availability


class TorchScriptBackend(Backend):
    """Scripts partitions and folds frozen weights into them; inference and training."""

    name = "ts"
    summary = "TorchScript: the graph in torch's own interpreter, weights folded in"
    races = True
    dynamic_shapes = True

    def probe(self) -> Availability:
        """Every torch has it."""
        return in_torch()

    def decompositions(
        self,
        table: dict[Any, Callable[..., Any]],
        *,
        training: bool,
    ) -> dict[Any, Callable[..., Any]]:
        """Keep what eager has a kernel for: TorchScript calls the very same one."""
        if training:
            return {}
        return {op: cut for op, cut in table.items() if "_scaled_dot_product" not in str(op)}

    def supports(self, node: Node) -> Support:
        """Whether TorchScript resolves the node to the very overload that eager would call."""
        writer = Writer()
        try:
            for source in node.all_input_nodes:
                writer.placeholder(source)
            writer.operation(node)
        except (TypeError, RuntimeError) as error:
            pass_on(error)
            return Support(supported=False, reason=one_line(error))
        return Support(supported=True)

    def lower(
        self,
        graph: GraphModule,
        example_inputs: Sequence[torch.Tensor],  # noqa: ARG002
        options: Options,  # noqa: ARG002
    ) -> CompiledFn:
        """Write the graph, fold its constants, hand it to the interpreter."""
        return own_outputs(graph, written(graph).jit.function())


def own_outputs(graph: GraphModule, run: CompiledFn) -> CompiledFn:
    """Copy outputs that rest on constants alone: folded, each call would return the same tensor."""
    free: set[Any] = set()
    for node in graph.graph.nodes:
        if node.op == "get_attr" or (
            node.op == "call_function" and all(n in free for n in node.all_input_nodes)
        ):
            free.add(node)
    outputs: Any = graph.graph.output_node().args[0]
    fixed = [position for position, node in enumerate(outputs) if _root(node) in free]
    if not fixed:
        return run

    def fresh(*args: Any) -> Sequence[Any]:
        results = list(run(*args))
        for position in fixed:
            results[position] = results[position].clone()
        return results

    return fresh


def _root(node: Any) -> Any:
    """The node whose memory a view looks at; the node itself where it is not a view."""
    while is_view(node):
        node = node.args[0]
    return node


BACKEND = TorchScriptBackend()
