"""How much of a captured graph's products autocast computes in the lower precision."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends.fx_graph import may_differentiate
from dynamo_ext.backends.pipeline.autocast.lowering import Lowering
from dynamo_ext.interruptions import pass_on
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.entered_modes import forward_of
from dynamo_ext.torch_private.work import products_in


def lowered_operations(graph: GraphModule, inputs: Sequence[Any], lowering: Lowering) -> int | None:
    """Operations of products with operands in the lower dtype in a call; computes none of them.

    ``None`` where it is not known: in training, where the backward graph is another one, with
    symbolic sizes, and where the graph reads values.
    """
    if may_differentiate(inputs) or any(map(dispatch.is_symbolic, inputs)):
        return None
    try:
        with dispatch.outside_modes(), dispatch.fake_mode(), lowering.on():
            given = [_alike(value) for value in inputs]
            return products_in(lowering.dtype, lambda: forward_of(graph)(*given))
    except Exception as error:  # noqa: BLE001 - not every graph runs without values
        pass_on(error)
        return None


def _alike(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
