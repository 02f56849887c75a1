"""Each test of capture begins with a Dynamo that starts clean, and leaves it so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

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
