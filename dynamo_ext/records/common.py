"""Facts that several records share, and reading records strictly."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dynamo_ext.errors import OptionError, RecordFormatError

if TYPE_CHECKING:
    import cattrs

T = TypeVar("T")

FULL = "float32"
"""The precision of code in which nothing is lowered, whatever its own dtypes are."""


@dataclass(frozen=True)
class Availability:
    """Whether a backend can run here.

    ``version`` is the engine's, ``device`` what it would run on (``cpu``, ``cuda:0``). If it is not
    ``available``, ``reason`` is what is missing, and ``remedy`` a pip command or the hardware it
    needs.
    """

    available: bool
    version: str = ""
    device: str = ""
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class OptionSpec:
    """One ``--opt`` of a backend: its default gives the type that text is converted to.

    ``choices`` are the texts, ``least`` and ``most`` the bounds of a number that may be given.
    ``optional`` is the type where ``None``, as text ``none``, may be given too.
    """

    name: str
    default: bool | int | float | str | None
    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    optional: type | None = None

    @property
    def kind(self) -> type:
        """What values are converted to."""
        return self.optional or type(self.default)


@dataclass(frozen=True)
class BackendInfo:
    """A row of ``%dynamo backends``.

    ``lacking`` are the precisions that it has and this machine has not, each with the reason.
    """

    name: str
    origin: str
    summary: str
    availability: Availability
    options: tuple[OptionSpec, ...] = ()
    lacking: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's source; ``file`` is the name in the code object.

    ``in_cell``: of the cell that was run; ``line`` then counts the ``%%dynamo`` line as line 1.
    ``cell`` is what the notebook calls another cell (``In[5]``), where that is known.
    """

    file: str
    line: int
    function: str = ""
    code: str = ""
    in_cell: bool = False
    cell: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True)
class CodeBlock:
    """User source that the report can show, with the line its first line has in the editor."""

    name: str
    file: str
    first_line: int
    source: str


def structured(cls: type[T], record: Any, version: int, noun: str, maker: str) -> T:
    """A record from plain dicts: what ``to_dict`` or its JSON gave.

    ``version`` is the ``schema`` that this version reads; ``noun`` and ``maker`` name it in the
    ``RecordFormatError`` that is raised where it is none, or has another schema.
    """
    import cattrs

    schema = record.get("schema") if isinstance(record, dict) else None
    if schema != version:
        msg = f"This record has schema {schema!r}, and this version reads {version}."
        raise RecordFormatError(msg, "Open it with the version that wrote it.")
    try:
        return cattrs.structure(record, cls)
    except cattrs.BaseValidationError as error:
        detail = "; ".join(cattrs.transform_error(error)[:3])
        msg = f"This is not {noun}: {detail}."
        raise RecordFormatError(msg, f"Pass a dict that {maker} made.") from error


def saved(path: str | Path, noun: str, forms: Mapping[str, Callable[[], str]]) -> Path:
    """Write a file in the form that its ending names; ``OptionError`` for another ending."""
    target = Path(path)
    if target.suffix not in forms:
        message = f"{noun} cannot be saved as {target.suffix or 'a file without ending'}."
        raise OptionError(message, f"Use {', '.join(forms)}.")
    target.write_text(forms[target.suffix](), encoding="utf-8")
    return target


def plain(text: str | bytes) -> Any:
    """The value of JSON of any origin; raises ``RecordFormatError`` for other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"This is not the JSON of a record: {type(error).__name__}."
        raise RecordFormatError(msg, "Save the record again.") from None


def checked(cls: type[T], value: Any) -> T:
    """A record from plain values of its fields' types, which are not converted.

    Raises ``RecordFormatError`` where one has another type, is missing, or is not finite.
    """
    import cattrs

    try:
        return _strict().structure(value, cls)
    except (TypeError, ValueError, cattrs.BaseValidationError) as error:
        msg = f"This is not a valid {cls.__name__}: {type(error).__name__}."
        raise RecordFormatError(msg, "Save the record again.") from None


@functools.cache
def _strict() -> cattrs.Converter:
    import cattrs

    def take(value: Any, wanted: Any) -> Any:
        if type(value) not in ((int, float) if wanted is float else (wanted,)):
            msg = f"{type(value).__name__} where {wanted.__name__} is expected"
            raise TypeError(msg)
        if wanted is float and not math.isfinite(value):
            msg = "a number that is not finite"
            raise ValueError(msg)
        return wanted(value)

    converter = cattrs.Converter()
    for kind in (str, bool, int, float):
        converter.register_structure_hook(kind, take)
    return converter
