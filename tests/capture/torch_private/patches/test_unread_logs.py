"""What torch works out for its logs is left out where none is kept, and there where one is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import torch
from torch._dynamo import exc, guards, symbolic_convert

from dynamo_ext.capture.torch_private import compile_metrics
from dynamo_ext.capture.torch_private.patches.registry import traced_our_way

if TYPE_CHECKING:
    import pytest

    from tests.capture.live import Live

SETTINGS = ("dynamo_config", "inductor_config", "compiler_config", "functorch_config")


def latency() -> int:
    return int(compile_metrics.latest_metrics().guard_latency_us or 0)


def test_guards_are_not_timed(cells: Live) -> None:
    cells.report("y = x + 1")
    assert latency() == 0


def test_guards_are_timed_where_their_log_is_read(
    cells: Live, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, guards.guards_log.name):
        cells.report("y = x + 1")
    assert latency() > 0


def test_settings_are_not_written_out(cells: Live) -> None:
    cells.report("y = x + 1")
    newest = compile_metrics.latest_metrics()
    assert [getattr(newest, name) for name in SETTINGS] == [None] * 4
    torch.compile(lambda x: x + 2, backend="eager")(torch.ones(3))
    assert compile_metrics.latest_metrics().inductor_config


def test_the_frames_around_a_break_are_described_for_a_log_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert len(exc.get_stack_above_dynamo()) > 1
    with traced_our_way():
        assert len(exc.get_stack_above_dynamo()) == 0
        with caplog.at_level(logging.DEBUG, symbolic_convert.graph_break_log.name):
            assert len(exc.get_stack_above_dynamo()) > 1
