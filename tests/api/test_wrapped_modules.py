"""Modules under ``optimize``: code of their own, and guards in the user's names."""

from __future__ import annotations

import re

import torch

import dynamo_ext
from dynamo_ext.analysis.guards import condition


def test_many_wrapped_modules_meet_no_limit() -> None:
    x = torch.ones(2, 3)
    for _ in range(12):
        fast = dynamo_ext.optimize("eager")(torch.nn.Sequential(torch.nn.Linear(3, 2)))
        fast(x)
        report = fast.report()
        assert len(report.graphs) == 1
        assert (report.fallbacks, report.recompiles) == ((), ())


def test_guards_of_a_wrapped_module_have_the_users_names() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(3, 2)

        def forward(self, data: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
            out: torch.Tensor = self.inner(data)
            return out if scale is None else out * scale

    fast = dynamo_ext.optimize("eager")(Scaled())
    fast(torch.ones(2, 3), torch.ones(2))
    fast(torch.ones(4, 3), scale=torch.ones(2))
    report = fast.report()
    words = " ".join(condition(guard) for guard in report.guards)
    for expected in ("`data` must stay", "`scale` must stay", "`Scaled.inner.weight` must stay"):
        assert expected in words
    assert not re.search(r"`(?:fn|args|kwargs)\b", words), words
    assert {"data", "scale", "Scaled"} <= {guard.variable for guard in report.guards}
    assert {frame.name for frame in report.frames} == {"Scaled"}
    (first, *_) = report.recompiles
    assert first.variable in {"data", "scale", "args", "kwargs"}
