"""How far results may be from the exact ones where a lower precision was asked for.

The distance is that of a whole result, and relative to its size: the root mean square of the error
over that of the result. A norm or a softmax that needs more digits shows in it, and single small
elements, which any rounding changes, do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.numerics import tolerance

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

BOUNDS = {"fp16": 0.01, "bf16": 0.05, "int8": 0.2}
"""The largest relative error by precision: some ten roundings of it, one after the other.

One of int8 is that of a whole tensor with one scale, in some ten times its size.
"""

_ROUNDING = {"fp16": 2.0**-10, "bf16": 2.0**-7, "int8": 2.0**-7}
"""The distance from 1 to the next number."""


def is_rounding(output: Any, eager: Any, exact: Any, precision: str) -> bool:
    """Whether a result is nothing but rounding, in eager and, as far as it goes, in ``precision``.

    Eager's error is larger than the exact result, and that of ``output`` is to eager's at most as
    their roundings are.
    """
    import torch

    alike = tolerance.floating(output, eager, exact) and output.shape == eager.shape == exact.shape
    if not alike:
        return False
    right = exact.detach().double()
    away, own = (float((each.detach().double() - right).norm()) for each in (output, eager))
    coarser = max(_ROUNDING[precision] / torch.finfo(eager.dtype).eps, 1.0)
    # Of what is not finite, nothing is said.
    return float(right.norm()) < own < float("inf") and away <= coarser * own


def largest_error(outputs: Sequence[Any], exact: Sequence[Any]) -> float:
    """The largest ``relative_error`` of outputs as in ``disagreement``, of equal shapes.

    Infinity where one of the two is not finite and the other is.
    """
    import torch

    pairs = [each for each in zip(outputs, exact, strict=True) if tolerance.floating(each[1])]
    if not all(torch.equal(got.isfinite(), right.isfinite()) for got, right in pairs):
        return float("inf")
    return max((relative_error(got.detach(), right) for got, right in pairs), default=0.0)


def relative_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The root mean square of an error over that of the exact result; what is infinite left out.

    0.0 where both are zero or empty, infinity where the exact one alone is zero.
    """
    finite = found.isfinite() & exact.isfinite()
    found, exact = found[finite].double(), exact[finite].double()
    error, size = float((found - exact).norm()), float(exact.norm())
    return error / size if size else float("inf") if error else 0.0
