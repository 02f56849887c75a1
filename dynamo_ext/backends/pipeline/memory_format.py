"""Tensors as an engine reads and writes memory: row-major on the way in, as eager's on the way out.

In as few copies as can be.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends.fx_graph import WithoutCode, copied
from dynamo_ext.backends.support.single_op import size


def order_of(value: Any) -> tuple[int, ...]:
    """Dimensions from the slowest in memory to the fastest; ``()`` where row-major or unknown.

    Dimensions of size one say nothing, so they stay where they are. A tensor with gaps or
    overlaps has no order that a fresh tensor could take, and counts as row-major.
    """
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return ()
    sizes, strides = list(map(size, value.shape)), list(map(size, value.stride()))
    if 0 in sizes:
        return ()
    moving = [dim for dim, count in enumerate(sizes) if count != 1]
    ranked = iter(sorted(moving, key=lambda dim: -strides[dim]))
    order = tuple(next(ranked) if count != 1 else dim for dim, count in enumerate(sizes))
    dense = torch.empty_strided(sizes, strides, device="meta").permute(order).is_contiguous()
    return order if dense and order != tuple(range(len(order))) else ()


def expected_orders(graph: GraphModule) -> dict[int, tuple[int, ...]]:
    """For each output of a graph that is not row-major: the order of its dimensions."""
    outputs: Any = graph.graph.output_node().args[0]
    return {
        position: order
        for position, node in enumerate(outputs)
        if hasattr(node, "meta") and (order := order_of(node.meta.get("val")))
    }


def in_layout(outputs: Sequence[Any], orders: Mapping[int, tuple[int, ...]]) -> Sequence[Any]:
    """The outputs with those in ``orders`` laid out so; one that is so already is not copied."""
    if not orders:
        return outputs
    result = list(outputs)
    for position, order in orders.items():
        tensor = result[position]
        if not order:
            result[position] = tensor.contiguous()
            continue
        back = sorted(range(len(order)), key=order.__getitem__)
        result[position] = tensor.permute(order).contiguous().permute(back)
    return result


def relaxed(graph: GraphModule) -> GraphModule:
    """A copy of a functional graph that eager runs whatever strides its operations give.

    Tracing wrote ``view`` where a result was to be row-major; a kernel may give other strides than
    its description for tracing does.
    """
    own = WithoutCode(graph, copied(graph))
    for node in own.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
        node.target = torch.ops.aten.reshape.default
    own.write_code()
    return own
