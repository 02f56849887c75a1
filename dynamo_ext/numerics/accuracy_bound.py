"""A bound on what a lower precision may cost, as a user writes it: ``cosine>=0.9999``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamo_ext.errors import OptionError
from dynamo_ext.numerics import lowered_precision, tolerance

if TYPE_CHECKING:
    import torch

_FORM = re.compile(r"\s*(cosine|top1)\s*>=\s*(\S+)\s*|\s*(rel)\s*<=\s*(\S+)\s*")
_HELP = "Write it as cosine>=0.9999, rel<=1e-2 or top1>=0.99."


@dataclass(frozen=True)
class AccuracyBound:
    """What each floating-point result must meet against float64's.

    ``metric`` is ``cosine`` (similarity of the whole result, at least ``limit``), ``rel`` (root
    mean square error relative to the result's own, at most) or ``top1`` (share of rows along the
    last dimension whose largest element is in the same place, at least).
    """

    metric: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> AccuracyBound:
        """Read ``cosine>=0.9999``, ``rel<=1e-2`` or ``top1>=0.99``.

        Raises ``OptionError`` for anything else, or a limit that is not from 0 to 1.
        """
        found = _FORM.fullmatch(text)
        metric, limit = (found[1] or found[3], found[2] or found[4]) if found else ("", "")
        try:
            number = float(limit)
        except ValueError:
            number = math.nan
        if not 0 <= number <= 1:
            message = f"{text!r} is not a bound of accuracy."
            raise OptionError(message, _HELP)
        return cls(metric, number)

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.metric}{'<=' if self.metric == 'rel' else '>='}{self.limit:g}"

    def difference(self, got: Any, right: Any) -> str:
        """Why one result does not meet it, as a sentence; what is not floating must be equal."""
        import torch

        floating = all(isinstance(v, torch.Tensor) and v.is_floating_point() for v in (got, right))
        if not floating:
            return tolerance.difference(got, right)
        if got.shape != right.shape:
            return f"shape {tuple(got.shape)} where eager gives {tuple(right.shape)}."
        mine, theirs = got.detach().double(), right.detach().double()
        if not torch.equal(mine.isfinite(), theirs.isfinite()):
            return "It is not finite where eager is, or the other way round."
        value = _METRICS[self.metric](mine, theirs)
        met = value <= self.limit if self.metric == "rel" else value >= self.limit
        return "" if met else f"{self.metric} is {value:.6g}, and {self} was asked for."


def cosine(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The cosine of the angle between two float64 tensors of one shape; 1.0 where both are zero."""
    finite = found.isfinite() & exact.isfinite()
    found, exact = found[finite], exact[finite]
    sizes = float(found.norm()) * float(exact.norm())
    if not sizes:
        return float(found.norm() == exact.norm())
    return min(float(found @ exact) / sizes, 1.0)


def top1(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The share of rows along the last dimension whose largest element is in the same place."""
    if not found.numel() or not found.ndim:
        return 1.0
    return float((found.argmax(-1) == exact.argmax(-1)).double().mean())


_METRICS = {"cosine": cosine, "rel": lowered_precision.relative_error, "top1": top1}
