"""The errors a user can meet, each with what to do about it.

Every message is one sentence that a person can act on. Magics turn these into
``IPython.core.error.UsageError``, which prints the sentence and stops "Run All" without a
stack of this package's frames.
"""

import contextlib
import re
from typing import Self


class DynamoExtError(Exception):
    """Base of every error that this package raises on purpose.

    ``message`` is what is wrong, as one sentence; ``remedy`` what fixes it, as one sentence or a
    command, empty when there is nothing to do.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(f"{message} {remedy}".rstrip())


class UnknownBackendError(DynamoExtError):
    """No backend of ours or torch's has the name that was asked for."""


class BackendUnavailableError(DynamoExtError):
    """A backend is known, but its package, version or device is not here."""


class InvalidBackendError(DynamoExtError):
    """An object was given as a backend and lacks what one must say, or takes another's name."""


class OptionError(DynamoExtError):
    """An option does not exist, or its value cannot be used."""


class LastingEffectError(OptionError):
    """What is compared does what cannot be taken back, such as to write a file."""

    def with_commands(self, command: str) -> Self:
        """The same with the remedies of a command line, which is given as it was typed."""
        remedy = (
            f"To compare it all the same:\n    {command} --allow-writes\n"
            f"To measure its graphs alone:\n    {command} --per-graph"
        )
        return type(self)(self.message, remedy)


class CellError(DynamoExtError):
    """A cell cannot be run under Dynamo at all (empty, top-level await)."""


class NoReportError(DynamoExtError):
    """A report was asked for before anything ran."""


class RecordFormatError(DynamoExtError):
    """A saved record has another schema version or is not a record."""


class UnsupportedTorchError(DynamoExtError):
    """The installed torch lacks a private interface that this package relies on."""


class FallbackWarning(UserWarning):
    """A graph, or a part of it, runs eagerly although a backend was asked for.

    Issued only outside a recorded run (plain ``torch.compile(backend="dx_…")``), where there
    is no report to show the fallback in.
    """


def lines(error: object, noise: re.Pattern[str] | None = None) -> list[str]:
    """The lines of an exception, without what ``noise`` matches in each; or its type's name."""
    said: list[str] = []
    with contextlib.suppress(Exception):
        said = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [noise.sub("", line) for line in said] if noise else said
    return list(filter(None, telling)) or said or [type(error).__name__]


def one_line(
    error: object, noise: re.Pattern[str] | None = None, *, with_type: bool = False
) -> str:
    """The first of an exception's ``lines``, after the name of its type where that is wanted."""
    name, first = type(error).__name__, lines(error, noise)[0]
    return f"{name}: {first}" if with_type and first != name else first
