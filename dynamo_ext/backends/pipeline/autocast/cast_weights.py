"""The weights of products under autocast, cast once: autocast casts them in every call."""

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.nn import functional as F  # noqa: N812 - as torch's own documentation has it

from dynamo_ext.backends import effects
from dynamo_ext.backends.pipeline.autocast import torch_private
from dynamo_ext.backends.pipeline.freeze import watchable
from dynamo_ext.backends.pipeline.input_views import root_of
from dynamo_ext.backends.pipeline.weight_sets import WeightSets
from dynamo_ext.torch_private import dispatch

_PRODUCTS: frozenset[Any] = frozenset(
    {
        *(F.linear, operator.matmul, torch.matmul, torch.mm, torch.bmm),
        *(torch.addmm, torch.baddbmm, torch.addbmm, torch.addmv, torch.mv),
        *(F.conv1d, F.conv2d, F.conv3d),
        *(F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d),
    }
)
"""What autocast computes in the lower dtype on every device, all of its operands cast."""


def separate(
    graph: GraphModule, inputs: Sequence[Any], dtype: torch.dtype, kept: Collection[str]
) -> dict[int, torch.Tensor]:
    """Have the products of a graph read weights in ``dtype``, which become its last inputs.

    Returns the weights that they are casts of, by position. Products named ``kept`` are left alone,
    and so are weights that the graph changes, or of which a change would not be seen.
    """
    placeholders: list[Node] = list(graph.graph.find_nodes(op="placeholder"))
    changing = (node for node in graph.graph.nodes if effects.of_node(node).changes)
    changed = {root_of(given) for node in changing for given in node.all_input_nodes}
    found: dict[int, torch.Tensor] = {}
    for position, (node, value) in enumerate(zip(list(placeholders), inputs, strict=True)):
        users = [user for user in node.users if user.target in _PRODUCTS and user.name not in kept]
        if not users or node in changed or not _is_weight(value):
            continue
        found[position] = value
        with graph.graph.inserting_after(placeholders[-1]):
            cast = graph.graph.placeholder(f"{node.name}_cast")
        cast.meta = {**node.meta, "example_value": casts([node.meta["example_value"]], dtype)[0]}
        torch_private.give_source(cast)
        placeholders.append(cast)
        for user in users:
            user.replace_input_with(node, cast)
    graph.recompile()
    return found


def _is_weight(value: Any) -> bool:
    return (
        dispatch.is_plain_tensor(value)
        and dispatch.stays_put(value)
        and value.dtype is torch.float32
        and watchable(value)
    )


def casts(weights: Iterable[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    """The weights in another dtype, of which no gradient gets back to them."""
    with dispatch.outside_modes():
        return [weight.detach().to(dtype) for weight in weights]


class CastOnce:
    """``call(*args)`` runs a graph of ``separate`` with ``made``, the casts of its ``weights``.

    Each instance of a module has casts of its own. Of weights that have changed they are made in
    each call, as autocast does.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        weights: Mapping[int, torch.Tensor],
        made: Sequence[torch.Tensor],
    ) -> None:
        self._run = run
        self._positions = tuple(weights)
        self._dtype = made[0].dtype
        self._sets = WeightSets(weights, lambda _: None)
        for each in self._sets.live:
            each.fast_path = self._with(made)

    def call(self, *args: Any) -> Any:
        """Run it."""
        known = self._sets.holding(args)
        if known is not None and known.fast_path is not None:
            return known.fast_path(args)
        run = self._with(casts((args[at] for at in self._positions), self._dtype))
        if (new := self._sets.new(args)) is not None:
            new.fast_path = run
        return run(args)

    def _with(self, made: Sequence[torch.Tensor]) -> Callable[..., Any]:
        run = self._run
        return lambda args: run(*args, *made)
