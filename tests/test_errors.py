"""Each error says what is wrong and what mends it, in one line."""

from __future__ import annotations

import pytest

from dynamo_ext import errors


def test_message_and_remedy_are_one_sentence_after_the_other() -> None:
    error = errors.OptionError("This is wrong.", "Do that.")
    assert str(error) == "This is wrong. Do that."
    assert (error.message, error.remedy) == ("This is wrong.", "Do that.")


def test_without_a_remedy_nothing_trails() -> None:
    assert str(errors.CellError("This is wrong.")) == "This is wrong."


@pytest.mark.parametrize(
    "kind",
    [
        errors.UnknownBackendError,
        errors.BackendUnavailableError,
        errors.InvalidBackendError,
        errors.OptionError,
        errors.CellError,
        errors.NoReportError,
        errors.RecordFormatError,
        errors.UnsupportedTorchError,
    ],
)
def test_all_can_be_caught_at_once(kind: type[errors.DynamoExtError]) -> None:
    with pytest.raises(errors.DynamoExtError):
        raise kind("x", "y")  # noqa: EM101
