"""The weights of products under autocast, cast once: autocast casts them in every call."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.nn import functional as F  # noqa: N812 - as torch's own documentation has it

from dynamo_ext.backends import effects
from dynamo_ext.backends.pipeline.calls.weight_sets import WeightSet, WeightSets
from dynamo_ext.backends.pipeline.freeze import Watch, watchable
from dynamo_ext.backends.pipeline.input_views import root_of
from dynamo_ext.backends.torch_private import aot
from dynamo_ext.torch_private import dispatch

PRODUCTS: frozenset[Any] = frozenset(
    {
        *(F.linear, operator.matmul, torch.matmul, torch.mm, torch.bmm),
        *(torch.addmm, torch.baddbmm, torch.addbmm),
        *(F.conv1d, F.conv2d, F.conv3d),
        *(F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d),
    }
)
"""What autocast computes in the lower dtype on every device, all of its operands cast."""

_GRADIENTS_ON = {"_set_grad_enabled": True, "_enter_inference_mode": False}
"""Operations that switch gradients on, with the argument that does."""


def separate(
    graph: GraphModule, inputs: Sequence[Any], dtype: torch.dtype
) -> dict[int, torch.Tensor]:
    """Have the products of a graph read weights in ``dtype``, which become its last inputs.

    Returns the weights that they are casts of, by position. Weights in memory that the graph
    changes, or of which a change would not be seen, are left alone. A graph that switches gradients
    on is left as it is: none would get through a cast.
    """
    placeholders: list[Node] = list(graph.graph.find_nodes(op="placeholder"))
    names = ((getattr(node.target, "__name__", ""), node.args) for node in graph.graph.nodes)
    if any(name in _GRADIENTS_ON and args[0] is _GRADIENTS_ON[name] for name, args in names):
        return {}
    changing = (node for node in graph.graph.nodes if effects.of_node(node).changes)
    changed = {root_of(given) for node in changing for given in node.all_input_nodes}
    written = [v for node, v in zip(placeholders, inputs, strict=True) if node in changed]
    found: dict[int, torch.Tensor] = {}
    for position, (node, value) in enumerate(zip(list(placeholders), inputs, strict=True)):
        users = [user for user in node.users if user.target in PRODUCTS]
        if not users or not _is_weight(value) or "example_value" not in node.meta:
            continue
        if any(dispatch.share_memory(value, other) for other in written):
            continue
        found[position] = value
        with graph.graph.inserting_after(placeholders[-1]):
            cast = graph.graph.placeholder(f"{node.name}_cast")
        cast.meta = {**node.meta, "example_value": _cast(node.meta["example_value"], dtype)}
        aot.give_source(cast)
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


def _cast(weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return weight.detach().to(dtype)


def casts(weights: Iterable[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    """Copies of weights in another dtype, without their gradients."""
    # A tensor of inference mode could not be changed after it.
    with dispatch.outside_modes(), torch.inference_mode(mode=False), torch.no_grad():
        return [_cast(weight, dtype) for weight in weights]


def cast_again(casts: list[torch.Tensor], weights: Iterable[torch.Tensor]) -> None:
    """Have casts hold what the weights hold now, at the addresses that they have."""
    with dispatch.outside_modes():
        dispatch.copy_all(casts, weights)


def _unseen(weights: Iterable[torch.Tensor]) -> bool:
    """Whether these may change without being seen: elements are looked at on the CPU alone."""
    return any(weight.device.type != "cpu" for weight in weights)


@dataclass
class _Casts:
    """The casts of one instance's weights; ``counted`` is what the weights were at the last cast.

    Where they are not ``watched``, the next call makes them again.
    """

    made: list[torch.Tensor]
    watched: bool
    counted: list[tuple[int, int]] = field(default_factory=list)


class CastOnce:
    """``call(*args)`` runs a graph of ``separate`` with casts of its ``weights`` to ``dtype``.

    Each instance of a module has casts of its own. They are made again, in the same memory, when a
    weight has changed; on a GPU, where not every change is seen, in each call, all at once.
    """

    def __init__(
        self, run: Callable[..., Any], weights: Mapping[int, torch.Tensor], dtype: torch.dtype
    ) -> None:
        self._run = run
        self._positions = tuple(weights)
        self._dtype = dtype
        self._unseen = _unseen(weights.values())
        self._sets = WeightSets(weights, lambda gone: self._casts.pop(gone.number, None))
        # Watched first: they may change meanwhile.
        made = casts(weights.values(), dtype)
        self._casts = {each.number: self._kept(each, made) for each in self._sets.live}

    def call(self, *args: Any) -> Any:
        """Run it."""
        held = self._sets.holding(args)
        known = self._casts.get(held.number) if held is not None else None
        made = known.made if known is not None and known.watched else self._renewed(args)
        return self._run(*args, *made)

    def _renewed(self, args: Sequence[Any]) -> list[torch.Tensor]:
        weights = [args[position] for position in self._positions]
        one = self._sets.of(args)
        known = self._casts.get(one.number) if one is not None else None
        if one is None or known is None:
            new = self._sets.new(args)
            made = casts(weights, self._dtype)
            if new is not None:
                self._casts[new.number] = self._kept(new, made)
            return made
        counted = [(weight._version, weight.data_ptr()) for weight in weights]  # noqa: SLF001 - torch's count of changes
        known.watched = False
        # Weights that change in each call are not worth a watch, which looks at all elements.
        if counted == known.counted and not self._unseen:
            with dispatch.outside_modes():
                one.watch = Watch(dict(zip(self._positions, weights, strict=True)))
            known.watched = True
        cast_again(known.made, weights)
        known.counted = counted
        return known.made

    def _kept(self, one: WeightSet, casts: list[torch.Tensor]) -> _Casts:
        # The weights themselves are not constants of anything here.
        one.weights = {}
        return _Casts(casts, watched=not self._unseen)
