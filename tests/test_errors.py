"""Each error says what is wrong and what fixes it, in one line."""

from __future__ import annotations

import re

import pytest

from dynamo_ext import errors


def test_message_and_remedy_are_one_sentence_after_the_other() -> None:
    error = errors.OptionError("This is wrong.", "Do that.")
    assert str(error) == "This is wrong. Do that."
    assert (error.message, error.remedy) == ("This is wrong.", "Do that.")


def test_without_a_remedy_nothing_trails() -> None:
    assert str(errors.CellError("This is wrong.")) == "This is wrong."


def test_all_can_be_caught_at_once() -> None:
    kinds = [each for name, each in vars(errors).items() if name.endswith("Error")]
    assert len(kinds) > 8
    assert [each for each in kinds if not issubclass(each, errors.DynamoExtError)] == []


class _SilentError(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_an_exception_is_its_first_line_that_is_not_noise() -> None:
    noise = re.compile(r"^(Traceback.*|E\d+: )")
    assert errors.one_line(ValueError("\n Traceback of it\n E12: Wrong.\nMore."), noise) == "Wrong."
    assert errors.one_line(ValueError("Traceback"), noise) == "Traceback"
    assert errors.one_line(ValueError("Wrong."), with_type=True) == "ValueError: Wrong."


@pytest.mark.parametrize("with_type", [False, True])
def test_an_exception_without_a_message_is_its_type(with_type: bool) -> None:
    assert errors.one_line(ValueError(" "), with_type=with_type) == "ValueError"
    assert errors.one_line(_SilentError(), with_type=with_type) == "_SilentError"
