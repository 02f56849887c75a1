"""Whether an engine's first results agree with eager's.

Tolerances follow the dtype. A reduction may sum in another order, so an element may also be off
by a small part of the *largest* element: cancellation leaves errors of that size.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch


class Tolerance(NamedTuple):
    """``|engine - eager| <= floor + relative * |eager| + scale * max|eager|``, by element."""

    relative: float
    scale: float
    floor: float


SENSELESS = 0.1
"""Of a result's size: farther from the exact one, eager's result is as good as noise."""

_EXACT = Tolerance(0.0, 0.0, 0.0)
_TOLERANCES = {
    "float64": Tolerance(1e-6, 1e-7, 1e-10),
    "float32": Tolerance(1e-3, 1e-4, 1e-5),
    "float16": Tolerance(1e-2, 5e-3, 1e-3),
    "bfloat16": Tolerance(3e-2, 3e-2, 1e-2),
}


def tolerance(dtype: torch.dtype) -> Tolerance:
    """The tolerance for a dtype, a complex one's that of its parts; others must be equal."""
    return _TOLERANCES.get(str(dtype.to_real()).removeprefix("torch."), _EXACT)


def difference(got: Any, want: Any, numbers: torch.dtype | None = None) -> str:
    """What is wrong with an engine's output, as one sentence; empty where nothing is.

    ``got`` and ``want`` are the engine's and eager's: tensors of any shape, numbers or ``None``.
    ``numbers`` is the dtype of the tensors that floating numbers were read from; without it they
    must be equal. The sentence says what differs: kind, dtype, device, shape, NaN or values.
    """
    import torch

    if not isinstance(want, torch.Tensor):
        same = got == want or (numbers is not None and _near(got, want, tolerance(numbers)))
        return "" if same else f"{got!r} where eager gives {want!r}."
    if not isinstance(got, torch.Tensor):
        return f"a {type(got).__name__} where eager gives a tensor."
    for fact in ("dtype", "device", "shape"):
        mine, theirs = getattr(got, fact), getattr(want, fact)
        if mine != theirs:
            mine, theirs = (tuple(v) if fact == "shape" else v for v in (mine, theirs))
            return f"{fact} {mine} where eager gives {theirs}."
    return _values_differ(got.detach(), want.detach()) if want.numel() else ""


def floating(*values: Any) -> bool:
    """Whether all are floating-point tensors."""
    import torch

    return all(isinstance(each, torch.Tensor) and each.is_floating_point() for each in values)


def _near(got: Any, want: Any, allowed: Tolerance) -> bool:
    """Whether two floating numbers are as near as elements of a tensor must be."""
    if not (isinstance(got, (float, complex)) and isinstance(want, (float, complex))):
        return False
    if got != got and want != want:  # noqa: PLR0124 - NaN, complex or not
        return True
    away, size = abs(got - want), abs(want)
    return away <= allowed.floor + (allowed.relative + allowed.scale) * size < math.inf


_BLOCK = 1 << 15
"""Elements that are compared at once: what is computed on the way to it stays in the caches."""


def _surely_near(got: torch.Tensor, want: torch.Tensor, allowed: Tolerance) -> bool:
    """Whether all elements are near enough without regard to the largest one.

    Of large tensors it takes a twentieth of the time that the exact answer does.
    """
    import torch

    if want.dtype not in (torch.float32, torch.float64):
        return False
    blocks = (torch.split(each.reshape(-1), _BLOCK) for each in (got, want))
    return all(
        torch.allclose(mine, theirs, allowed.relative, allowed.floor, equal_nan=True)
        for mine, theirs in zip(*blocks, strict=True)
    )


def _values_differ(got: torch.Tensor, want: torch.Tensor) -> str:
    import torch

    with torch.no_grad():
        allowed = tolerance(want.dtype)
        if want.dtype is torch.complex32:
            # Torch cannot compare it.
            got, want = got.to(torch.complex64), want.to(torch.complex64)
        if torch.equal(got, want) or _surely_near(got, want, allowed):
            return ""
        if allowed is _EXACT:
            count = int((got != want).sum())
            return f"{count} of {want.numel()} values differ from eager's."
        wide = torch.complex128 if want.is_complex() else torch.float64
        mine, theirs = got.to(wide), want.to(wide)
        strange = ~torch.isfinite(theirs)
        size = theirs.abs()
        largest = torch.where(strange, 0.0, size).max()
        limit = allowed.floor + allowed.relative * size + allowed.scale * largest
        error = (mine - theirs).abs()
        same = (mine == theirs) | (mine.isnan() & theirs.isnan())
        bad = ~same & (strange | ~(error <= limit))
        if not (count := int(bad.sum())):
            return ""
        if bool((mine.isnan() & ~theirs.isnan()).any()):
            return f"NaN in {int(mine.isnan().sum())} of {want.numel()} values, not so in eager."
        if lost := int((bad & strange).sum()):
            return f"{lost} of {want.numel()} values are not the NaN or infinity of eager's."
        worst = float(torch.where(strange, 0.0, error).max())
        return f"{count} of {want.numel()} values are off, by up to {worst:.3g}."


def multiple(dtype: torch.dtype) -> float:
    """A result is near enough up to this many times eager's own distance from the exact one.

    As torch judges its backends (``torch._dynamo.utils.same`` with ``fp64_ref``).
    """
    return 3.0 if str(dtype) in {"torch.float16", "torch.bfloat16"} else 2.0


def farther(output: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> str:
    """Whether a result is much farther from the exact one than eager's is, as one sentence.

    Where eager is itself off by more than a tenth of the result's own size, its distance cannot
    serve as the reference, and the sentence says so. ``exact`` is at a higher precision. The
    sentence has both distances (root mean square); it is empty where the result is near enough.
    """
    kind = str(exact.dtype).removeprefix("torch.")
    if not output.shape == eager.shape == exact.shape:
        return f"it has another shape in {kind}."
    mine, theirs, right = (t.detach().double() for t in (output, eager, exact))
    if not ((mine.isfinite() == theirs.isfinite()).all()):
        return "it is not finite where eager's is, or the other way round."
    finite = mine.isfinite() & right.isfinite()
    strange = int((~finite & ~((mine == theirs) | (mine.isnan() & theirs.isnan()))).sum())
    mine, theirs, right = mine[finite], theirs[finite], right[finite]
    if strange or not right.numel():
        return f"{strange} infinite values differ from eager's." if strange else ""
    allowed = tolerance(eager.dtype)
    floor = allowed.floor + allowed.scale * float(right.abs().max())
    away, own = _rms(mine - right), _rms(theirs - right)
    if own > SENSELESS * _rms(right) + floor:
        return f"eager itself is {own:.3g} from {kind}, so it cannot serve as the reference."
    if away <= multiple(eager.dtype) * own + floor / 10:
        return ""
    return f"it is {away:.3g} from {kind} (root mean square), eager {own:.3g}."


def _rms(values: torch.Tensor) -> float:
    return float(values.pow(2).mean().sqrt())
