"""What the tests of capture share: a notebook, and a Dynamo that starts clean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from tests.capture.live import Live, counting_compiles, live

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
    left = torch._C._dynamo.eval_frame.get_eval_frame_callback()
    torch._C._dynamo.eval_frame.set_eval_frame(None)
    assert left is None, "a frame callback was left installed"


@pytest.fixture
def cells() -> Iterator[Live]:
    with live("x = torch.arange(3.)") as found:
        yield found


@pytest.fixture
def compiles() -> Iterator[list[str]]:
    with counting_compiles() as started:
        yield started
