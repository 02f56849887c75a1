"""Whether results are right: the one answer, for partitions, graphs, races and comparisons.

- In the code's own precision a result is right that agrees with eager's by the tolerance of its
  dtype (``tolerance``), or is about as near to the exact one as eager's is. Deep networks magnify
  rounding, so two right results may be farther apart than a tolerance allows. Torch judges its own
  backends so (``torch._dynamo.utils.same`` with ``fp64_ref``).
- In a lower precision its error against the exact result is within the bound of that precision
  (``lowered_precision``). What is nothing but rounding in eager is not judged.
- What is not a floating-point tensor must be equal to eager's.

Exact results are those of a higher precision: of the graph (``higher_precision``) or of the code.
Examples of one number in float32, whose tolerance is about 1e-3 of it::

    found 1.0004    eager 1.0      right: within the tolerance
    found 1.004     eager 1.007    right where the exact one is 1.005: it is nearer
    found 1.004     eager 1.0      wrong where the exact one is 1.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamo_ext.numerics import lowered_precision, tolerance
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.common import FULL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch


@dataclass(frozen=True)
class Allowance:
    """How far a result in a lower precision may be off: by its bound ``times`` so much.

    It must meet the user's ``bound``, too, where there is one.
    """

    precision: str
    bound: AccuracyBound | None = None
    times: float = 1.0


def disagreement(
    outputs: Sequence[Any],
    eager: Sequence[Any],
    exact: Callable[[], Sequence[Any]] = tuple[Any, ...],
    precision: str = FULL,
    *,
    names: Sequence[str] = (),
) -> str:
    """What is wrong with the first of several results that is not right, as one sentence.

    ``outputs`` and ``eager`` are tensors of any shape, numbers or ``None``, in their order.
    ``exact`` gives the same at a higher precision, for as many as there are, by default for none;
    it is called where it decides.
    ``names`` are those of the results, ``Output 0`` and so on where none are given.
    """
    if len(outputs) != len(eager):
        return f"{len(outputs)} outputs came where {len(eager)} were expected."
    higher: list[Any] | None = None
    for position, (got, want) in enumerate(zip(outputs, eager, strict=True)):
        if precision == FULL and not tolerance.difference(got, want):
            continue
        if higher is None:
            higher = [*exact(), *[None] * len(eager)]
        if precision == FULL:
            wrong = difference(got, want, higher[position])
        else:
            wrong, _ = lowered(got, want, higher[position], Allowance(precision))
        if wrong:
            return f"{names[position] if names else f'Output {position}'}: {wrong}"
    return ""


def difference(output: Any, eager: Any, exact: Any, numbers: torch.dtype | None = None) -> str:
    """What is wrong with one result in the code's own precision, or nothing.

    ``exact`` is the same at a higher precision; anything else excuses nothing. ``numbers`` is as in
    ``tolerance.difference``.
    """
    wrong = tolerance.difference(output, eager, numbers)
    if not wrong or not tolerance.floating(output, eager, exact):
        return wrong
    if output.dtype != eager.dtype or exact.dtype == eager.dtype:
        return wrong
    return tolerance.farther(output, eager, exact) and wrong


def lowered(output: Any, eager: Any, exact: Any, allowed: Allowance) -> tuple[str, float | None]:
    """What is wrong with one result in a lower precision, and the metric of the user's bound.

    The sentence is empty if nothing is wrong. The metric is ``None`` without a bound, and if the
    result is only rounding, which is not judged. Without ``exact``, eager's result takes its place.
    """
    precision, bound = allowed.precision, allowed.bound
    right = exact if tolerance.floating(exact, eager) else eager
    if lowered_precision.is_rounding(output, eager, right, precision):
        return "", None
    missed, reached = bound.judge(output, right) if bound else ("", None)
    own = AccuracyBound("rel", lowered_precision.BOUNDS[precision] * allowed.times, "<=")
    wrong, error = own.judge(output, right, precision)
    if wrong and error is not None:
        wrong = (
            f"its error is {error:.2g} of its size (root mean square); {precision} may have "
            f"{own.limit:g}."
        )
    return wrong or missed, reached
