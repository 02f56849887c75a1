"""Guards are timed for a log alone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import torch
from torch._dynamo import guards

import dynamo_ext
from dynamo_ext.capture.torch_private import compile_metrics

if TYPE_CHECKING:
    import pytest


def latency() -> int:
    return int(compile_metrics.latest_metrics().guard_latency_us or 0)


def test_guards_are_not_timed() -> None:
    dynamo_ext.optimize("eager")(torch.neg)(torch.ones(1))
    assert latency() == 0


def test_guards_are_timed_where_their_log_is_read(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, guards.guards_log.name):
        dynamo_ext.optimize("eager")(torch.neg)(torch.ones(1))
    assert latency() > 0
