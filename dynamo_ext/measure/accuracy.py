"""A candidate's results against a reference's: how far off, and whether that is all right.

Against eager the tolerance follows the dtype (``numerics.tolerance``). Against float64 the question
is the maintainers' own (``torch._dynamo.utils.same``): is the candidate much farther from the
float64 result than eager itself is?
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from dynamo_ext.formatting import step_to
from dynamo_ext.measure.state.tensor_state import GRADIENT
from dynamo_ext.numerics import tolerance, verdict
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.numerics.lowered_precision import BOUNDS
from dynamo_ext.numerics.tolerance import floating
from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import Accuracy

OF_INPUT = " of input "
"""Before the number of the input that a result is of."""

_NO_ERROR = 400.0
"""The ratio of signal to noise, in decibels, of results without an error."""

Results = dict[str, Any]
"""Names of results to tensors (detached copies) and other values."""


def collect(values: Mapping[str, Any]) -> Results:
    """Copy the tensors out of named values, containers and plain objects entered.

    Numbers and strings are kept as they are; what is neither is left out.
    """
    return {
        path: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
        for name, value in values.items()
        for path, leaf in leaves(name, value)
    }


def leaves(path: str, value: Any, depth: int = 9) -> Iterator[tuple[str, Any]]:
    """The tensors, numbers and strings in a value, each by its path."""
    items: Iterable[tuple[str, Any]] = ()
    if isinstance(value, (torch.Tensor, bool, int, float, complex, str)):
        yield path, value
    elif isinstance(value, dict):
        items = ((step_to(key, at), item) for at, (key, item) in enumerate(value.items()))
    elif isinstance(value, (list, tuple)):
        items = ((f"[{index}]", item) for index, item in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        items = ((f".{field.name}", getattr(value, field.name, None)) for field in fields)
    for step, item in items if depth else ():
        yield from leaves(path + step, item, depth - 1)


def against(outputs: Results, expected: Results, reference: str = "eager") -> Accuracy:
    """How far ``outputs`` is from ``expected``, with the verdict that the dtype asks for."""
    if outputs.keys() != expected.keys():
        odd, nan = min(outputs.keys() ^ expected.keys()), math.nan
        detail = f"{odd} is a result of only one of the two."
        return Accuracy(
            reference, nan, nan, nan, within=False, outputs=len(expected), detail=detail
        )
    read_from = _coarsest(expected)
    details = (
        f"{name}: {wrong}"
        for name, want in expected.items()
        if (wrong := tolerance.difference(outputs[name], want, read_from))
    )
    return _measured(outputs, expected, reference, next(details, ""))


def _coarsest(results: Results) -> torch.dtype:
    """The dtype that floating numbers among results were read from, as far as one can tell."""
    kinds = {value.dtype for value in results.values() if floating(value)}
    return max(kinds, key=lambda kind: torch.finfo(kind).eps, default=torch.get_default_dtype())


def against_float64(outputs: Results, eager: Results, exact: Results) -> Accuracy:
    """How far ``outputs`` is from the float64 result, against how far eager is."""
    names = [n for n in exact if n in outputs and n in eager and floating(exact[n])]
    details = (
        f"{name}: {wrong}"
        for name in names
        if (wrong := tolerance.farther(outputs[name], eager[name], exact[name]))
    )
    return _measured(outputs, {n: exact[n] for n in names}, "float64", next(details, ""))


def lowered(
    outputs: Results,
    eager: Results,
    exact: Results | None,
    precision: str,
    bound: AccuracyBound | None = None,
) -> Accuracy:
    """How far results in a lower precision are from float64's, with the verdict by its bound.

    From eager's where there is no float64. What is not a floating-point tensor must be as in eager.
    Gradients may be twice as far off. What is nothing but rounding in eager, such as the gradient
    of what changes no result, is not judged. Where a user's ``bound`` is given, each other result
    must meet it, too. Of ``FULL``, in which graphs may have other precisions, the lowest one's
    bound holds.
    """
    precision = "int8" if precision == FULL else precision
    reference = "float64" if exact else "eager"
    right = {**eager, **{n: v for n, v in (exact or {}).items() if n in eager and floating(v)}}
    if outputs.keys() != right.keys():
        return against(outputs, eager, reference)
    details, values = [], []
    for name, want in right.items():
        # Gradients are rounded in the backward pass, too.
        gradient = name.partition(OF_INPUT)[0].endswith(GRADIENT)
        allowed = verdict.Allowance(precision, bound, 2.0 if gradient else 1.0)
        wrong, value = verdict.lowered(outputs[name], eager[name], want, allowed)
        details += [f"{name}: {wrong}"] if wrong else []
        values += [value] if value is not None else []
    measured = _measured(outputs, right, reference, details[0] if details else "")
    reached = bound.worst(values) if bound else None
    return dataclasses.replace(measured, bound=BOUNDS[precision], reached=reached)


def joined(batches: Sequence[Results]) -> Results:
    """The results of several inputs as one: joined along the first dimension where that is all."""
    shapes = [{n: v.shape[1:] for n, v in each.items() if _rows(v)} for each in batches]
    whole = set.intersection(*(set(each) for each in shapes)) if shapes else set()
    whole = {name for name in whole if len({each[name] for each in shapes}) == 1}
    found: Results = {name: torch.cat([each[name] for each in batches]) for name in sorted(whole)}
    for number, each in enumerate(batches, 1):
        found |= {f"{n}{OF_INPUT}{number}": v for n, v in each.items() if n not in whole}
    return found


def _rows(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.ndim > 0


def no_better_than_eager(outputs: Results, eager: Results, exact: Results) -> list[str]:
    """The results that neither agree with eager's nor are about as near to float64's as eager's.

    What only one of the two has is among them.
    """
    read_from = _coarsest(eager)
    both = [name for name in eager if name in outputs]
    worse = [n for n in both if verdict.difference(outputs[n], eager[n], exact.get(n), read_from)]
    return sorted(outputs.keys() ^ eager.keys()) + worse


def distance(output: Any, expected: Any) -> float:
    """The root mean square of the difference of two floating-point tensors.

    It is infinity where dtype, device or shape differ, an infinity or NaN is elsewhere, or one of
    the two is not such a tensor.
    """
    if not floating(output, expected):
        return math.inf
    facts = ("dtype", "device", "shape")
    if any(getattr(output, fact) != getattr(expected, fact) for fact in facts):
        return math.inf
    mine, theirs = output.detach().double(), expected.detach().double()
    away = torch.where((mine == theirs) | (mine.isnan() & theirs.isnan()), 0.0, mine - theirs)
    root = float(away.pow(2).mean().sqrt()) if away.numel() else 0.0
    return math.inf if math.isnan(root) else root


def _measured(outputs: Results, expected: Results, reference: str, detail: str) -> Accuracy:
    dot = one = other = worst = relative = noise = 0.0
    agreeing = rows = 0
    dtypes: list[str] = []
    for name, want in expected.items():
        got = outputs[name]
        comparable = floating(want) and isinstance(got, torch.Tensor) and got.shape == want.shape
        if not comparable or not want.numel():
            continue
        dtypes.append(str(got.dtype).removeprefix("torch."))
        mine, theirs = got.double().flatten(), want.double().flatten()
        finite = torch.isfinite(mine) & torch.isfinite(theirs)
        mine, theirs = mine[finite], theirs[finite]
        if not mine.numel():
            continue
        error = float((mine - theirs).abs().max())
        worst = max(worst, error)
        largest = float(theirs.abs().max())
        relative = max(relative, error / largest if largest else float(error > 0))
        dot += float(mine @ theirs)
        one += float(mine @ mine)
        other += float(theirs @ theirs)
        noise += float((mine - theirs).pow(2).sum())
        if want.ndim > 1 and want.shape[-1] > 1:
            same = got.argmax(-1) == want.argmax(-1)
            agreeing, rows = agreeing + int(same.sum()), rows + same.numel()
    sqnr = min(10 * math.log10(other / noise), _NO_ERROR) if other and noise else _NO_ERROR
    cosine = dot / math.sqrt(one * other) if one and other else (1.0 if one == other else 0.0)
    return Accuracy(
        reference=reference,
        cosine=min(cosine, 1.0),
        max_abs=worst,
        max_rel=relative,
        within=not detail,
        outputs=len(expected),
        dtype=", ".join(dict.fromkeys(dtypes)),
        detail=detail,
        sqnr=sqnr if other else None,
        top1=agreeing / rows if rows else None,
    )
