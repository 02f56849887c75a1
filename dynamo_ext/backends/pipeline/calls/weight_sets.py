"""The weights that a partition's engines hold as constants: a set for each instance of a module.

Dynamo compiles a module's class once and calls the code with the weights of whichever instance
runs. A model that is made again, as a notebook's cell does each time it runs, gets an engine with
constants of its own, which go when the instance goes. Weights that change in place become inputs,
and so does a buffer that a module replaces from call to call (``self.state = state``)::

    first, second = Net(), Net()    # one class: Dynamo compiles its forward once
    first(x)                        # an engine with the constants of first
    second(x)                       # another one, with those of second
    del first                       # and its engine goes
    second.bias.data += 1           # an engine that takes bias as an input
"""

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from dynamo_ext.backends.pipeline.freeze import Watch, watchable
from dynamo_ext.interruptions import suppressed
from dynamo_ext.torch_private import dispatch

MOST_SETS = 4
"""Instances alive at once that one partition keeps engines for; more give weights as inputs."""

MOST_BUILT = 16
"""Instances in all that it builds engines for.

Weights that are others at each call (``torch.func.functional_call``) are not to have an engine
built for each call.
"""

FastPath = tuple[Callable[..., Sequence[Any]], Callable[[Sequence[Any]], Sequence[Any]]]
"""An engine's function, and what takes its arguments from those of a partition."""


@dataclass(eq=False)
class WeightSet:
    """The weights of one instance, or none, where all of them are inputs.

    ``weights`` maps positions of a call's arguments to aliases of the tensors that were there, and
    ``references`` to these tensors, without keeping them; where there are any, ``watch`` sees their
    changes. ``fast_path`` is the trusted engine that has them as constants, once there is one.
    """

    number: int = -1
    weights: Mapping[int, torch.Tensor] = field(default_factory=dict)
    watch: Watch = field(init=False)
    references: dict[int, weakref.ref[torch.Tensor]] = field(default_factory=dict)
    fast_path: FastPath | None = None


class WeightSets:
    """Which sets of weights there are engines for.

    The first one is of the instance that the graph was captured with. ``gone`` is called with each
    set of which a weight was freed.
    """

    def __init__(
        self, weights: Mapping[int, torch.Tensor], gone: Callable[[WeightSet], object]
    ) -> None:
        self._gone = gone
        self._built = 0
        self._positions = tuple(weights)
        self._last_gone: Mapping[int, weakref.ref[torch.Tensor]] = {}
        # Replaced, never changed: other threads go through it meanwhile.
        self.live: tuple[WeightSet, ...] = ()
        if weights:
            self._add(weights)

    def holding(self, args: Sequence[Any]) -> WeightSet | None:
        """The set whose weights a call's arguments hold, unchanged."""
        return next((each for each in self.live if each.watch.fresh(args)), None)

    def of(self, args: Sequence[Any]) -> WeightSet | None:
        """The set of the weights in a call's arguments, changed or not."""
        for known in self.live:
            if all(args[position] is held() for position, held in known.references.items()):
                return known
        return None

    def new(self, args: Sequence[Any]) -> WeightSet | None:
        """A set of another instance's weights; none where a known one's have changed in place.

        Without buffers that the same instance has replaced.
        """
        self._positions = self._lasting(args)
        if not self._positions or len(self.live) >= MOST_SETS or self._built >= MOST_BUILT:
            return None
        if self.of(args) is not None:
            return None
        weights = {position: args[position] for position in self._positions}
        if not all(dispatch.is_plain_tensor(w) and watchable(w) for w in weights.values()):
            return None
        return self._add(weights)

    def _lasting(self, args: Sequence[Any]) -> tuple[int, ...]:
        """The positions without those of buffers that a known instance has replaced by others."""
        for references in (*(known.references for known in self.live), self._last_gone):
            replaced = {at for at, held in references.items() if args[at] is not held()}
            # Of another instance, the parameters are others, too: a module cannot replace them.
            same = not any(isinstance(args[at], torch.nn.Parameter) for at in replaced)
            if same and len(replaced) < len(references):
                return tuple(at for at in self._positions if at not in replaced)
        return self._positions

    def _add(self, weights: Mapping[int, torch.Tensor]) -> WeightSet | None:
        made = None
        # Unwatched, as for want of memory, they are inputs.
        with suppressed(Exception), dispatch.outside_modes():
            aliases = {position: weight.detach() for position, weight in weights.items()}
            watch = Watch(weights)
            made = WeightSet(self._built, aliases)
            made.watch = watch
        if made is None:
            return None
        self._built += 1
        mine = weakref.ref(made)
        # By a name of this function's: at the end of the process those of modules are gone.
        ending = sys.is_finalizing

        def forget(_: weakref.ref[torch.Tensor]) -> None:
            if not ending() and (found := mine()) is not None and found in self.live:
                self.live = tuple(each for each in self.live if each is not found)
                self._last_gone = found.references
                self._gone(found)

        made.references.update((at, weakref.ref(w, forget)) for at, w in weights.items())
        self.live = (*self.live, made)
        return made
