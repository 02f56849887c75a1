"""Each step of ``test_advice``'s situations, followed to the letter: there is less in the way then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch

from dynamo_ext.analysis.advice import advise
from tests.analysis.test_advice import MODEL, NET, SITUATIONS, X, finds_nonzero, run, scales, sums

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamo_ext.records.report import Report


def keeps_the_sum(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y * 3 + y.sum()


def chooses_by_where(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return torch.where(y.sum() > 5, y * 3, y)


def runs_every_step(x: torch.Tensor) -> torch.Tensor:
    ended = torch.tensor(False)
    for _ in range(5):
        x = torch.where(ended, x, x * 0.5)
        ended = ended | (x.abs().max() < 0.1)
    return x


def keeps_the_first(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    found, kept = torch.tensor(False), parts[0]
    for each in parts:
        positive = each.max() > 0
        kept = torch.where(positive & ~found, each * 2, kept)
        found = found | positive
    return kept


def runs_a_fixed_number(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    for _ in range(7):
        y = torch.where(y.sum() > 100, y / 2, y)
    return y * 3


def uses_torch(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y + torch.sort(y)[0]


def masks_by_where(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x, 0.0) * 2


def lists_the_parameters(x: torch.Tensor) -> torch.Tensor:
    weights = list(MODEL.parameters())
    return x * sum(w.sum() for w in weights)


def adds_up_stacked(stacked: torch.Tensor) -> torch.Tensor:
    return stacked.sin().sum()


class Followed(NamedTuple):
    """The code of a situation after its first step was followed."""

    function: Callable[..., Any]
    calls: Sequence[tuple[Any, ...]]
    options: dict[str, Any] = {}  # noqa: RUF012 - read alone
    config: dict[str, Any] = {}  # noqa: RUF012


# Where a step is to take a call out, or to give what is given the same, it is not followed here.
FOLLOWED = {
    "item": Followed(keeps_the_sum, [(X,)]),
    "item in if": Followed(chooses_by_where, [(X,)]),
    "if that leaves a loop": Followed(runs_every_step, [(X,)]),
    "return from a loop": Followed(keeps_the_first, [([X, -X],)]),
    "while": Followed(runs_a_fixed_number, [(X,)]),
    "numpy": Followed(uses_torch, [(X,)]),
    "mask": Followed(masks_by_where, [(X,)]),
    "nonzero": Followed(finds_nonzero, [(X,)], config={"capture_dynamic_output_shape_ops": True}),
    "generator": Followed(lists_the_parameters, [(X,)]),
    "batch": Followed(scales, [(X,), (X[:2],)], {"dynamic": True}),
    "width": Followed(scales, [(X.clone(),), (X[:, :2].contiguous(),)], {"dynamic": True}),
    "integers": Followed(scales, [(X, torch.tensor(by)) for by in (2.0, 3.0, 2.5)]),
    "key": Followed(sums, [({"a": X},), ({"a": X[:2]},)], {"dynamic": True}),
    "floats": Followed(scales, [(X, torch.tensor(i / 7)) for i in range(12)]),
    "length": Followed(adds_up_stacked, [(torch.stack([X] * n),) for n in (4, 2, 5, 3)]),
    "argument": Followed(NET, [(X,), (X[:2],)], {"dynamic": True}),
}


def obstacles(report: Report) -> int:
    """Graph breaks, frames that stay Python, and recompiles."""
    kept = sum(fallback.stage == "capture" for fallback in report.fallbacks)
    return len(report.breaks) + kept + sum(each.count for each in report.recompiles)


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_step_that_is_followed_leaves_less_in_the_way(name: str) -> None:
    [situation] = [each for each in SITUATIONS if each.name == name]
    before = run(situation.function, situation.calls, "eager")
    followed = FOLLOWED[name]
    with torch._dynamo.config.patch(followed.config):
        after = run(followed.function, followed.calls, "eager", **followed.options)
    assert obstacles(after) < obstacles(before)
    assert {each.topic for each in advise(after)} <= {"captured", "recompile"}
