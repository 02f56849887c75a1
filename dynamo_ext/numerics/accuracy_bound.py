"""A bound on what a lower precision may cost, as a user writes it: ``cosine>=0.9999``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamo_ext.errors import OptionError
from dynamo_ext.numerics import lowered_precision, tolerance

if TYPE_CHECKING:
    import torch

Metric = Callable[[Any, Any], Any]
"""From a result and float64's to a number."""

_FORM = re.compile(r"\s*(cosine|top1|rel|metric)\s*(>=|<=)\s*(\S+)\s*")
_SIGNS = {"cosine": ">=", "top1": ">=", "rel": "<="}
_OWN = "metric"
_HELP = "Write it as cosine>=0.9999, rel<=1e-2 or top1>=0.99."
_OWN_HELP = "Write it as --metric f --accuracy 'metric>=0.95', with f(result, reference) -> float."


@dataclass(frozen=True)
class AccuracyBound:
    """What each floating-point result must meet against float64's.

    ``metric`` is ``cosine`` (similarity of the whole result, at least ``limit``), ``rel`` (root
    mean square error relative to the result's own, at most), ``top1`` (share of rows along the
    last dimension whose largest element is in the same place, at least) or ``metric``, a
    ``function`` of the user's. ``sign`` is ``>=`` or ``<=``.
    """

    metric: str
    limit: float
    sign: str
    function: Metric | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, text: str, function: Metric | None = None) -> AccuracyBound:
        """Read ``cosine>=0.9999``, ``rel<=1e-2`` or ``top1>=0.99``; ``metric>=1`` of a function.

        Raises ``OptionError`` for anything else, a limit that is not from 0 to 1 (of ``metric``:
        not finite), ``metric`` without a function and a function without it.
        """
        found = _FORM.fullmatch(text)
        metric, sign, limit = found.groups() if found else ("", "", "")
        try:
            number = float(limit)
        except ValueError:
            number = math.nan
        known = sign == _SIGNS.get(metric, sign) and math.isfinite(number)
        if not known or (metric != _OWN and not 0 <= number <= 1):
            message = f"{text!r} is not a bound of accuracy."
            raise OptionError(message, _OWN_HELP if function else _HELP)
        if (metric == _OWN) != (function is not None):
            lacks = "a metric needs a bound" if function else "metric is a function of yours"
            message = f"{text!r} is not a bound of accuracy here: {lacks}."
            raise OptionError(message, _OWN_HELP)
        return cls(metric, number, sign, function)

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.metric}{self.sign}{self.limit}"

    @property
    def of_graphs(self) -> AccuracyBound | None:
        """The bound of one graph's results; a function of the user's says nothing of these."""
        return None if self.function else self

    @property
    def relative_error(self) -> float | None:
        """The relative error up to which it is met whatever the results are; ``None`` of others."""
        if self.metric == "cosine":
            return math.sqrt(1 - self.limit**2)
        return self.limit if self.metric == "rel" else None

    def judge(self, got: Any, right: Any, what: str = "It") -> tuple[str, float | None]:
        """Why one result does not meet it, and its metric, where that can be measured.

        Both are tensors of any shape, numbers or ``None``; ``right`` may have a higher dtype. What
        is not floating must be equal. ``what`` begins the sentence where only one is finite. Raises
        ``OptionError`` where the user's function raises, or gives no number.
        """
        import torch

        if not tolerance.floating(got, right):
            return tolerance.difference(got, right), None
        if got.shape != right.shape:
            return f"shape {tuple(got.shape)} where eager gives {tuple(right.shape)}.", None
        if self.function is not None:
            value = _of_function(self.function, got.detach(), right.detach())
        else:
            mine, theirs = got.detach().double(), right.detach().double()
            if not torch.equal(mine.isfinite(), theirs.isfinite()):
                return f"{what} is not finite where eager is, or the other way round.", None
            value = _METRICS[self.metric](mine, theirs)
        met = value <= self.limit if self.sign == "<=" else value >= self.limit
        return "" if met else f"{self.metric} is {value:.9g}, and {self} was asked for.", value

    def missed(self, outputs: Sequence[Any], exact: Sequence[Any]) -> str:
        """Why the first of several results that does not meet it does not, or nothing."""
        pairs = zip(outputs, exact, strict=True)
        return next(filter(None, (self.judge(got, right)[0] for got, right in pairs)), "")

    def worst(self, values: Iterable[float]) -> float | None:
        """The value of its metric that is farthest off; ``None`` of none."""
        return (max if self.sign == "<=" else min)(values, default=None)


def of_users(text: str) -> bool:
    """Whether a bound is one of a function of the user's, which the text alone does not name."""
    found = _FORM.fullmatch(text)
    return found is not None and found[1] == _OWN


def _of_function(function: Metric, output: torch.Tensor, exact: torch.Tensor) -> float:
    name = getattr(function, "__name__", type(function).__name__)
    try:
        return float(function(output, exact))
    except Exception as error:
        message = f"The metric {name} raised {type(error).__name__}: {error}"
        raise OptionError(message, "It gets a result and float64's, and gives a number.") from error


def cosine(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The cosine of the angle between two float64 tensors of one shape; 1.0 where both are zero."""
    finite = found.isfinite() & exact.isfinite()
    found, exact = found[finite], exact[finite]
    sizes = float(found.norm()) * float(exact.norm())
    if not sizes:
        return float(found.norm() == exact.norm())
    return min(float(found @ exact) / sizes, 1.0)


def top1(output: torch.Tensor, exact: torch.Tensor) -> float:
    """The share of rows along the last dimension whose largest element is in the same place."""
    if not output.numel() or not output.ndim:
        return 1.0
    return float((output.argmax(-1) == exact.argmax(-1)).double().mean())


_METRICS = {"cosine": cosine, "rel": lowered_precision.relative_error, "top1": top1}
