"""``nvfuser``, which has no wheel for any torch that this package needs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynamo_ext.backends import registry
from dynamo_ext.errors import BackendUnavailableError, OptionError


def test_it_runs_eagerly(harness: Any) -> None:
    with pytest.raises(BackendUnavailableError, match=r"made for torch .* has wheels for torch"):
        registry.compiler("nvfuser", strict=True)
    x = torch.randn(3)
    torch.testing.assert_close(harness.compile(torch.sin, registry.compiler("nvfuser"))(x), x.sin())
    assert harness.stages == ["unavailable"]


@pytest.mark.parametrize("given", [{"fusion": "on"}, {"verify": "perhaps"}])
def test_options_are_checked(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"verify|true or false"):
        registry.compiler("nvfuser", given)
