"""``ts``: TorchScript on partitions of the functional ATen graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.base import PARTITION_OPTIONS, Support
from dynamo_ext.backends.returned_views import is_view
from dynamo_ext.backends.torchscript_writer import NotScriptableError, Writer, written
from dynamo_ext.records import Availability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options, OptionSpec


class TorchScriptBackend:
    """Scripts partitions and folds frozen weights into them; inference and training."""

    name = "ts"
    summary = "TorchScript: the graph in torch's own interpreter, weights folded in"
    extra = ""
    whole_graph = False
    dynamic_shapes = True
    options: Sequence[OptionSpec] = PARTITION_OPTIONS

    def probe(self) -> Availability:
        """Every torch has it."""
        import torch

        device = "cuda:0" if torch.cuda.is_available() else "cpu"
        return Availability(available=True, version=torch.__version__, device=device)

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
        except (NotScriptableError, TypeError, RuntimeError) as error:
            return Support(supported=False, reason=_first_line(error))
        return Support(supported=True)

    def lower(
        self,
        graph: GraphModule,
        example_inputs: Sequence[torch.Tensor],  # noqa: ARG002
        options: Options,  # noqa: ARG002
    ) -> CompiledFn:
        """Write the graph, fold its constants, hand it to the interpreter."""
        return own_outputs(graph, written(graph).function())


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
    """The node whose memory a view looks at; the node itself where it is no view."""
    while is_view(node):
        node = node.args[0]
    return node


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


BACKEND = TorchScriptBackend()
