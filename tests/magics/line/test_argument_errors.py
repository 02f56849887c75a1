"""The word that was probably meant."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from dynamo_ext.magics.argument_errors import closest, parse


@pytest.mark.parametrize(
    ("word", "expected"), [("onxrt", "onnxrt"), ("onnxrt", "onnxrt"), ("zzzz", ""), ("", "")]
)
def test_the_closest_word(word: str, expected: str) -> None:
    assert closest(word, ["onnxrt", "openvino"]) == expected


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("onnxrt", "A backend goes behind -b: -b onnxrt."),
        ("onnxrt:int8,inductor", "A backend goes behind -b: -b onnxrt:int8,inductor."),
        ("--accuracy cosine >= 0.999", 'A bound has no spaces: --accuracy "cosine>=0.999".'),
        ("optimise", "Did you mean optimize?"),
        ("compare", "One mode goes on the line, and it comes first: optimize, run, compare."),
    ],
)
def test_a_stray_word_is_said_where_it_goes(line: str, remedy: str) -> None:
    parser = MagicArgumentParser()
    parser.add_argument("--accuracy")
    parser.add_argument("mode", nargs="?", choices=("optimize", "run"))
    with pytest.raises(UsageError) as raised:
        parse(parser, line)
    assert str(raised.value).endswith(remedy)
