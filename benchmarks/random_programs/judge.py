"""What a call of a program does that its user could see, and whether two calls do the same."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.zoo.model import tensors
from dynamo_ext.numerics import verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHAKES = 8
"""Times that inputs are changed by a rounding, to see whether a result is a matter of rounding."""


@dataclass
class Seen:
    """One call, as its user sees it.

    Parameters
    ----------
    results, inputs
        What it gave, and the tensors that it was given as it left them: copies.
    error
        What it raised.
    layouts
        Strides of the results.
    shared
        The pairs that share memory; results come first, then inputs.
    learns
        Which results require a gradient.
    gradients
        Of the inputs; of their computation, what it raised.
    written
        Results and inputs after each result was written to in turn.
    """

    results: list[Any] = field(default_factory=list)
    inputs: list[torch.Tensor] = field(default_factory=list)
    error: Exception | None = None
    layouts: list[tuple[int, ...]] = field(default_factory=list)
    shared: set[tuple[int, int]] = field(default_factory=set)
    learns: list[bool] = field(default_factory=list)
    gradients: list[Any] = field(default_factory=list)
    written: list[list[torch.Tensor]] = field(default_factory=list)


def seen(function: Callable[..., Any], given: tuple[Any, ...]) -> Seen:
    """Call a function and look at all that it did."""
    inputs = [value for value in given if isinstance(value, torch.Tensor)]
    torch.manual_seed(0)
    try:
        output = function(*given)
    except Exception as error:  # noqa: BLE001 - it is part of what is seen
        return Seen(error=error, inputs=_copies(inputs))
    results = tensors(output)
    found = Seen(
        results=[_copy(value) for value in results],
        inputs=_copies(inputs),
        layouts=[_strides(value) for value in results],
        learns=[isinstance(value, torch.Tensor) and value.requires_grad for value in results],
    )
    everything = [*results, *inputs]
    for i, j in itertools.combinations(range(len(everything)), 2):
        if i < len(results) and _touch(everything[i], everything[j]):
            found.shared.add((i, j))
    found.gradients = _gradients(results, inputs)
    own = [value for value in results if isinstance(value, torch.Tensor)]
    for value in own:
        with torch.no_grad(), contextlib.suppress(RuntimeError):
            plain = value.detach()
            plain.logical_not_() if plain.dtype is torch.bool else plain.add_(1)
        found.written.append(_copies([*own, *inputs]))
    return found


def difference(found: Seen, expected: Seen, true: Seen | None) -> tuple[str, str]:
    """What differs: its kind, and a sentence; both empty where nothing does.

    Parameters
    ----------
    found, expected
        The engine's and eager's.
    true
        The same in float64, where the program runs so.
    """
    if found.error is not None or expected.error is not None:
        return _errors_differ(found, expected)
    right = true or Seen()
    differences: dict[str, Callable[[], str]] = {
        "results": lambda: _values(found.results, expected.results, right.results),
        "inputs": lambda: _values(found.inputs, expected.inputs, right.inputs),
        "gradients": lambda: _values(found.gradients, expected.gradients, right.gradients),
        "requires_grad": lambda: _unequal(found.learns, expected.learns),
        "strides": lambda: _strides_of_views(found, expected),
        "sharing": lambda: _unequal(sorted(found.shared), sorted(expected.shared)),
        "writing": lambda: _written(found, expected, right),
    }
    for kind, look in differences.items():
        if wrong := look():
            return kind, wrong
    return "", ""


def _unequal(found: Any, expected: Any) -> str:
    return "" if found == expected else f"{found} where eager's are {expected}."


def _strides_of_views(found: Seen, expected: Seen) -> str:
    """Strides of a result that is a view of an input: others are not promised."""
    for i in sorted({i for i, j in expected.shared if j >= len(expected.results)}):
        if wrong := _unequal(found.layouts[i], expected.layouts[i]):
            return f"Output {i}: {wrong}"
    return ""


def _written(found: Seen, expected: Seen, true: Seen) -> str:
    states = itertools.zip_longest(found.written, expected.written, true.written, fillvalue=())
    for i, (mine, theirs, right) in enumerate(states):
        if wrong := _values(mine, theirs, right):
            return f"After output {i} was written to: {wrong}"
    return ""


def layouts_differ(found: Seen, expected: Seen) -> bool:
    """Whether any result has other strides than eager's."""
    return found.error is None and found.layouts != expected.layouts


def _errors_differ(found: Seen, expected: Seen) -> tuple[str, str]:
    mine, theirs = found.error, expected.error
    if theirs is None:
        return "raises", f"It raised {type(mine).__name__}: {_line(mine)}"
    if mine is None:
        return "does not raise", f"Eager raises {type(theirs).__name__}: {_line(theirs)}"
    # Dynamo's own exceptions are subclasses of those that eager raises.
    if not isinstance(mine, type(theirs)):
        kinds = f"{type(mine).__name__} where eager raises {type(theirs).__name__}"
        return "exception", f"{kinds}: {_line(theirs)}"
    wrong = verdict.disagreement(found.inputs, expected.inputs)
    return ("inputs, raising", wrong) if wrong else ("", "")


def _line(error: BaseException | None) -> str:
    """The start of what it says: Dynamo's errors have the cause in a line of its own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:240]


def _values(found: Sequence[Any], expected: Sequence[Any], true: Sequence[Any]) -> str:
    if len(found) != len(expected):
        return f"{len(found)} came where {len(expected)} were expected."
    if len(true) != len(expected):
        true = [None] * len(expected)
    for position, (got, want, right) in enumerate(zip(found, expected, true, strict=True)):
        numbers = torch.float32 if isinstance(want, float) else None
        if type(got) is not type(want):
            return f"{position}: {type(got).__name__} where eager gives {type(want).__name__}."
        if wrong := verdict.difference(got, want, right, numbers):
            return f"{position}: {wrong}"
    return ""


def _copies(values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [_copy(value) for value in values]


def _copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().resolve_conj().resolve_neg().clone()


def _strides(value: Any) -> tuple[int, ...]:
    """Strides of the dimensions along which there is a step."""
    if not isinstance(value, torch.Tensor) or value.numel() < 2:
        return ()
    return tuple(s for s, n in zip(value.stride(), value.shape, strict=True) if n > 1)


def _touch(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    if not one.numel() or not other.numel():
        return False
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _gradients(results: Sequence[Any], inputs: Sequence[torch.Tensor]) -> list[Any]:
    wanted = [tensor for tensor in inputs if tensor.is_leaf and tensor.requires_grad]
    losses = [
        (value.abs() * torch.arange(1, value.numel() + 1).reshape(value.shape).cos()).sum().double()
        for value in results
        if isinstance(value, torch.Tensor) and value.requires_grad and value.numel()
    ]
    if not wanted or not losses:
        return []
    try:
        found = torch.autograd.grad(torch.stack(losses).sum(), wanted, allow_unused=True)
    except Exception as error:  # noqa: BLE001 - it is part of what is seen
        return [type(error).__name__]
    return [None if gradient is None else _copy(gradient) for gradient in found]
