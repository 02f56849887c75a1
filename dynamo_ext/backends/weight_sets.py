"""The weights that a partition's engines hold as constants: a set for each instance of a module.

Dynamo compiles a module's class once and calls the code with the weights of whichever instance
runs. A model that is made anew, as a notebook's cell does each time it runs, gets an engine with
constants of its own, which go when the instance goes; weights that change in place become inputs.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import torch_private
from dynamo_ext.backends.freeze import Watch, watchable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

MOST_SETS = 4
"""Sets of weights that one partition keeps engines for; more take theirs as inputs.

Those that went before they had lasted count, too: weights that are others at each call
(``torch.func.functional_call``) are not to have an engine built for each call.
"""

LASTING = 16
"""Calls of an engine after which it was worth building."""


@dataclass(eq=False)
class WeightSet:
    """The weights of one instance.

    ``weights`` maps positions of a call's arguments to aliases of the tensors that were there, and
    ``references`` to these tensors themselves, without keeping them; ``hot`` is the trusted engine
    that has them as constants, once there is one. ``lasting`` is whether it was called ``LASTING``
    times.
    """

    number: int
    weights: Mapping[int, torch.Tensor]
    watch: Watch
    references: dict[int, weakref.ref[torch.Tensor]] = field(default_factory=dict)
    hot: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    lasting: bool = False

    def trust(self, hot: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        """Let an engine be ``hot``; its first calls are counted."""
        left = LASTING

        def counted(args: Sequence[Any]) -> Sequence[Any]:
            nonlocal left
            left -= 1
            if left <= 0 and self.hot is counted:
                self.lasting, self.hot = True, hot
            return hot(args)

        self.hot = counted


class WeightSets:
    """Which sets of weights there are engines for.

    Parameters
    ----------
    weights
        Those of the instance that the graph was captured with; without any, there is no set.
    gone
        Is told of each set of which a weight is no more.
    """

    def __init__(
        self, weights: Mapping[int, torch.Tensor], gone: Callable[[WeightSet], None]
    ) -> None:
        self._gone = gone
        self._fleeting = 0
        self._numbers = itertools.count()
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
        if not self._positions or len(self._sets) + self._fleeting >= MOST_SETS:
            return None
        weights = {position: args[position] for position in self._positions}
        for known in self._sets:
            if all(weights[position] is held() for position, held in known.references.items()):
                return None
        if not all(torch_private.is_plain_tensor(w) and watchable(w) for w in weights.values()):
            return None
        return self._add(weights)

    def clear(self) -> None:
        """Let go of all of them."""
        self._sets.clear()

    def _add(self, weights: Mapping[int, torch.Tensor]) -> WeightSet:
        with torch_private.outside_modes():
            aliases = {position: weight.detach() for position, weight in weights.items()}
            made = WeightSet(next(self._numbers), aliases, Watch(weights))
        mine = weakref.ref(made)
        # By a name of this function's: at the end of the process those of modules are gone.
        ending = sys.is_finalizing

        def forget(_: weakref.ref[torch.Tensor]) -> None:
            if not ending() and (found := mine()) is not None and found in self._sets:
                self._sets.remove(found)
                self._fleeting += not found.lasting
                self._gone(found)

        made.references.update((at, weakref.ref(w, forget)) for at, w in weights.items())
        self._sets.append(made)
        return made
