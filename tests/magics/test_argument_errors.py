"""The word that was probably meant."""

from __future__ import annotations

import pytest

from dynamo_ext.magics.argument_errors import closest


@pytest.mark.parametrize(
    ("word", "expected"),
    [("onxrt", "onnxrt"), ("onnxrt", "onnxrt"), ("zzzz", ""), ("", "")],
)
def test_the_closest_word(word: str, expected: str) -> None:
    assert closest(word, ["onnxrt", "openvino"]) == expected
