"""The weights that a partition's engines hold as constants: a set for each instance of a module.

Dynamo compiles a module's class once and calls the code with the weights of whichever instance
runs. A model that is made anew, as a notebook's cell does each time it runs, gets an engine with
constants of its own; weights that change in place become inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import torch_private
from dynamo_ext.backends.freeze import Watch, watchable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

MOST_SETS = 4
"""Sets of weights that one partition keeps engines for; more take theirs as inputs."""


@dataclass(eq=False)
class WeightSet:
    """The weights of one instance.

    ``weights`` maps positions of a call's arguments to the tensors that were there; ``hot`` is the
    trusted engine that has them as constants, once there is one.
    """

    number: int
    weights: Mapping[int, torch.Tensor]
    watch: Watch
    hot: Callable[[Sequence[Any]], Sequence[Any]] | None = None


class WeightSets:
    """Which sets of weights there are engines for.

    Parameters
    ----------
    weights
        Those of the instance that the graph was captured with; without any, there is no set.
    """

    def __init__(self, weights: Mapping[int, torch.Tensor]) -> None:
        self._positions = tuple(weights)
        self._sets: list[WeightSet] = []
        if weights:
            self._add(weights)

    @property
    def first(self) -> WeightSet | None:
        """The set that the graph was captured with."""
        return self._sets[0] if self._sets else None

    def holding(self, args: Sequence[Any], besides: WeightSet | None = None) -> WeightSet | None:
        """The set whose weights a call's arguments hold, unchanged; ``besides`` is not asked."""
        for each in self._sets:
            if each is not besides and each.watch.fresh(args):
                return each
        return None

    def new(self, args: Sequence[Any]) -> WeightSet | None:
        """A set of another instance's weights; none where a known one's have changed in place."""
        if not self._sets or len(self._sets) >= MOST_SETS:
            return None
        weights = {position: args[position] for position in self._positions}
        for known in self._sets:
            if all(weights[position] is weight for position, weight in known.weights.items()):
                return None
        if not all(torch_private.is_plain_tensor(w) and watchable(w) for w in weights.values()):
            return None
        return self._add(weights)

    def clear(self) -> None:
        """Let go of all of them."""
        self._sets.clear()

    def _add(self, weights: Mapping[int, torch.Tensor]) -> WeightSet:
        with torch_private.outside_modes():
            made = WeightSet(len(self._sets), weights, Watch(weights))
        self._sets.append(made)
        return made
