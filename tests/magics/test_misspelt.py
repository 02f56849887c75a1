"""What is wrong with a line that argparse refuses."""

from __future__ import annotations

import argparse

import pytest
from IPython.core.error import UsageError

from dynamo_ext.magics.misspelt import closest, explain_misspelt, explain_misspelt_option


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    made.add_argument("mode", nargs="?")
    made.add_argument("-b", "--backend")
    made.add_argument("--quiet", action="store_true")
    made.add_argument("--executor")
    return made


@pytest.mark.parametrize(
    ("word", "expected"),
    [("onxrt", "onnxrt"), ("onnxrt", "onnxrt"), ("zzzz", ""), ("", "")],
)
def test_the_closest_word(word: str, expected: str) -> None:
    assert closest(word, ["onnxrt", "openvino"]) == expected


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("optimise", "optimise is no mode; did you mean optimize?"),
        ("comapre", "did you mean compare?"),
        ("zzzz", "zzzz is no mode; there are: "),
        ("--quiet compare", "compare comes first on the line"),
        ("graphs", "graphs needs no cell: write %dynamo graphs"),
        ("--backnd eager", "--backnd is no option; did you mean --backend?"),
        ("--backnd=eager", "--backnd is no option; did you mean --backend?"),
        ("--zzzz", "--zzzz is no option; there are: --"),
        ("-b lambda g, x: g", '-b "lambda g, x: g"'),
        ("-b lambda g, x: g.f('a') --quiet", "-b \"lambda g, x: g.f('a')\""),
        ('-b make("a", 1)', "-b 'make(\"a\", 1)'"),
        ("--executor pool (2)", '--executor "pool (2)"'),
    ],
)
def test_it_says_which_word_is_wrong(parser: argparse.ArgumentParser, line: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        explain_misspelt(line, parser)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    "line", ["", "run", "-b run", "-brun", "--backend=zzzz", "--back zzzz", "-b -1", "run --quiet"]
)
def test_it_is_silent_where_nothing_is_misspelt(parser: argparse.ArgumentParser, line: str) -> None:
    explain_misspelt(line, parser)


def test_of_a_command_only_options_are_looked_at(parser: argparse.ArgumentParser) -> None:
    explain_misspelt_option("zzzz -b eager", parser)
    with pytest.raises(UsageError, match="did you mean --quiet"):
        explain_misspelt_option("zzzz --quite", parser)
