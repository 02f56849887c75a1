"""What the sweep runs: torch's own operator samples, and a supplement of edge values.

The samples are those of torch's test suite. ``torch.testing._internal`` is private and is
imported here alone; checked on 2.13.0. It changes global flags of torch, so it belongs in a
process of its own (``python -m benchmarks.operators --here``).
"""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from benchmarks.operators import edges
from benchmarks.operators.row import case_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

DTYPES = {"float32": torch.float32, "int64": torch.int64, "bool": torch.bool}

_MOST_SAMPLES = 60
"""Samples of an operator among which some are chosen; a few operators have thousands."""

_UNINITIALISED = ("empty", "resize_")
"""Operators with these in their names give memory as they find it."""


@dataclass(frozen=True)
class Case:
    """A function of tensors, and tensors to call it on.

    ``function`` returns a tuple of tensors. ``values`` is false where their values are whatever
    memory held before.
    """

    operator: str
    dtype: str
    sample: int
    function: Callable[..., tuple[Any, ...]]
    tensors: tuple[torch.Tensor, ...]
    values: bool = True

    @property
    def key(self) -> str:
        """What tells this case from others."""
        return case_key(self.operator, self.dtype, self.sample)


def cases(
    *,
    operators: str = "*",
    dtypes: Sequence[str] = tuple(DTYPES),
    samples: int = 3,
    subset: int = 0,
) -> Iterator[Case]:
    """Cases in a fixed order; the same arguments give the same ones in each process.

    Parameters
    ----------
    operators
        A shell pattern for names, such as ``nn.functional.*``.
    dtypes
        Names among ``DTYPES``.
    samples
        At most so many for each operator and dtype, evenly spaced over those that torch has.
    subset
        Only so many operators, chosen by a hash of their names; 0 means all. The supplement is
        no part of that choice and always there.
    """
    infos = sorted(_operators(), key=_name)
    chosen = [info for info in infos if fnmatch.fnmatch(_name(info), operators)]
    if subset:
        chosen = sorted(sorted(chosen, key=lambda info: _rank(_name(info)))[:subset], key=_name)
    for info, dtype in itertools.product(chosen, dtypes):
        if DTYPES[dtype] in info.supported_dtypes("cpu"):
            yield from _cases_of(info, dtype, samples)
    for dtype, named in edges.EDGES.items():
        for name, (function, *inputs) in named.items():
            if fnmatch.fnmatch(edges.PREFIX + name, operators) and dtype in dtypes:
                tensors = tuple(make().clone() for make in inputs)
                yield Case(edges.PREFIX + name, dtype, 0, _flat(function), tensors)


def _operators() -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def _name(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def _rank(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _cases_of(info: Any, dtype: str, samples: int) -> Iterator[Case]:
    name = _name(info)
    # Each operator draws from a seed of its own, so that a pattern does not change its values.
    seed = int(_rank(name + dtype)[:8], 16)
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        made = info.sample_inputs("cpu", DTYPES[dtype], requires_grad=False)
        known = list(itertools.islice(made, _MOST_SAMPLES))
    except Exception:  # noqa: BLE001 - a few need packages or hardware that are not here
        return
    count = min(samples, len(known))
    positions = [0] if count == 1 else [i * (len(known) - 1) // (count - 1) for i in range(count)]
    initialised = not any(part in name for part in _UNINITIALISED)
    for position in positions:
        given = known[position]
        leaves, form = pytree.tree_flatten((given.input, given.args, given.kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        call = _call(info.op, leaves, form, places)
        tensors = tuple(leaves[place] for place in places)
        yield Case(name, dtype, position, call, tensors, initialised)


def _call(
    op: Callable[..., Any], leaves: Sequence[Any], form: Any, places: Sequence[int]
) -> Callable[..., tuple[Any, ...]]:
    def call(*tensors: torch.Tensor) -> tuple[Any, ...]:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(filled, form)
        return _tensors(op(first, *args, **kwargs))

    return call


def _flat(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    def call(*tensors: torch.Tensor) -> tuple[Any, ...]:
        return _tensors(function(*tensors))

    return call


def _tensors(result: Any) -> tuple[Any, ...]:
    return tuple(leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor))
