"""``nvfuser``, which has no wheel for any torch that this package needs."""

from __future__ import annotations

from typing import Any

import pytest

from dynamo_ext.backends import registry
from dynamo_ext.errors import OptionError
from tests.backends.engine_zoo import is_unavailable


def test_it_runs_eagerly(harness: Any) -> None:
    is_unavailable(harness, "nvfuser", r"made for torch .* has wheels for torch")


@pytest.mark.parametrize("given", [{"fusion": "on"}, {"verify": "perhaps"}])
def test_options_are_checked(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"verify|true or false"):
        registry.compiler("nvfuser", given)
