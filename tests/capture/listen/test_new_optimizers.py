"""If each run makes a new optimizer, its steps run in Python; a lasting one's are captured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from dynamo_ext.capture.listen import new_optimizers
from tests.capture.live import Live, live

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamo_ext.records.report import Report

# The cells collect garbage.
pytestmark = pytest.mark.usefixtures("older_objects_frozen")

SETUP = """
import gc
torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 4)
def fit(steps):
    gc.collect()
    torch.manual_seed(1)
    net = torch.nn.Linear(8, 4)
    train(net, torch.optim.SGD(net.parameters(), lr=0.1), steps)
    return net.weight.detach()
def train(net, optimizer, steps):
    for i in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
lasting_net = torch.nn.Linear(8, 4)
lasting = torch.optim.SGD(lasting_net.parameters(), lr=0.1)
"""


@pytest.fixture
def cells() -> Iterator[Live]:
    new_optimizers._captured.clear()
    with live(SETUP) as found:
        yield found


def captured(report: Report) -> list[str]:
    return [each.name for each in report.frames if each.name == "step" and each.graphs]


def said(report: Report) -> list[str]:
    return [f.message for f in report.fallbacks if f.message.startswith("Steps of `SGD`")]


def test_steps_of_a_new_optimizer_stay_python(cells: Live) -> None:
    assert captured(cells.report("w = fit(5)"))
    expected = cells.names["w"]
    again = cells.report("w = fit(5)")
    assert not captured(again)
    assert len(said(again)) == 1
    assert torch.allclose(cells.names["w"], expected, atol=1e-6)


def test_in_one_run_the_second_one_stays_python(cells: Live) -> None:
    report = cells.report("ws = [fit(5) for fold in range(3)]")
    assert len(captured(report)) == 1
    assert said(report)


def test_all_are_captured_where_the_user_says_so(cells: Live) -> None:
    for _ in range(3):
        report = cells.report("w = fit(5)", "-b eager --capture all")
        assert captured(report)
        assert not said(report)


def test_one_that_lasts_and_one_beside_it_are_captured(cells: Live) -> None:
    for _ in range(2):
        assert captured(cells.report("train(lasting_net, lasting, 5)"))
    assert captured(cells.report("w = fit(5)")), "the first one is alive"


def test_a_step_that_was_not_captured_for_want_of_seconds_is_captured_by_the_next_run(
    cells: Live,
) -> None:
    assert not captured(cells.report("w = fit(5)", "-b eager --first-run 1e-9"))
    again = cells.report("w = fit(5)")
    assert captured(again)
    assert not said(again)
