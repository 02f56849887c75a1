"""In what a run of a cell differs from the plain one: what it bound and what it printed."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_leaves

from benchmarks import float64
from benchmarks.first_run.namespace import Namespace
from dynamo_ext.numerics import tolerance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from IPython.core.interactiveshell import InteractiveShell

    from benchmarks.first_run.namespace import Ran

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_MISSING = object()


def bound(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """The names that a cell has bound, or bound to another object."""
    return [
        name
        for name, value in after.items()
        if not name.startswith("_") and before.get(name, _MISSING) is not value
    ]


class Judge:
    """Compares names of two namespaces; where they disagree, the cell in float64 says more.

    Parameters
    ----------
    shell
        Where a third namespace is made.
    setup, cell
        What is run in it.
    """

    def __init__(self, shell: InteractiveShell, setup: str, cell: str) -> None:
        self._shell = shell
        self._setup = setup
        self._cell = cell

    def difference(
        self, names: Sequence[str], plain: Mapping[str, Any], other: Mapping[str, Any]
    ) -> str:
        """The first of the names that differs, and how; nothing where none does."""
        for name in names:
            wrong = self._of_name(name, plain, other) if name in other else "it is not bound."
            if wrong:
                return f"{name}: {wrong}"
        return ""

    def _of_name(self, name: str, plain: Mapping[str, Any], other: Mapping[str, Any]) -> str:
        found, expected = values(other[name]), values(plain[name])
        return float64.disagreement(found, expected, functools.partial(self._exact, name))

    def _exact(self, name: str) -> list[Any]:
        return values(self._wide[name], torch.float64)

    @functools.cached_property
    def _wide(self) -> dict[str, Any]:
        """The names after the first run in float64; random numbers may be others there."""
        space = Namespace(self._shell)
        space.must_run(self._setup)
        widen(space.names)
        torch.set_default_dtype(torch.float64)
        try:
            space.must_run(self._cell)
        finally:
            torch.set_default_dtype(torch.float32)
        return space.names


def values(value: Any, numbers: torch.dtype = torch.float32) -> list[Any]:
    """What is compared of a value: its structure, tensors, numbers and texts, and other classes.

    Floating numbers come from tensors; they are one tensor of the dtype ``numbers``.
    """
    leaves, structure = tree_flatten(value)
    floating = [leaf for leaf in leaves if isinstance(leaf, float)]
    plain = [_plain(leaf) for leaf in leaves if not isinstance(leaf, float)]
    return [str(structure), *plain, torch.tensor(floating, dtype=numbers)]


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.detach()
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc":
        return torch.from_numpy(leaf.copy())
    # Two namespaces have each their own classes and functions.
    return leaf if isinstance(leaf, (int, str, complex, type(None))) else type(leaf).__name__


def widen(names: dict[str, Any]) -> None:
    """Put weights and tensors at double precision, where they are: optimizers know them."""
    found = list(names.values())
    for value in found:
        if isinstance(value, torch.nn.Module):
            value.double()
    for tensor in tree_leaves(found):
        if isinstance(tensor, torch.Tensor) and tensor.is_complex():
            tensor.data = tensor.data.to(torch.complex128)
        elif isinstance(tensor, torch.Tensor):
            tensor.data = float64.doubled(tensor.data)


def printed_difference(plain: Ran, other: Ran) -> str:
    """How printed texts differ: numbers may, as much as results may."""
    if plain.printed == other.printed:
        return ""
    (found, text), (expected, plain_text) = (
        numbers_and_words(ran.printed) for ran in (other, plain)
    )
    if len(found) != len(expected) or text != plain_text:
        return "another text is printed."
    pairs = enumerate(zip(found, expected, strict=True))
    wrong = ((place, tolerance.difference(*pair, torch.float32)) for place, pair in pairs)
    return next((f"Number {place}: {said}" for place, said in wrong if said), "")


def numbers_and_words(text: str) -> tuple[list[float], str]:
    """The numbers in a text, and the text without them."""
    return [float(number) for number in _NUMBER.findall(text)], _NUMBER.sub("#", text)
