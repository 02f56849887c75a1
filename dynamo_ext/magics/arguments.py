"""What a user said on a ``%%dynamo`` line."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamo_ext.errors import OptionError
from dynamo_ext.magics.option_values import lacking
from dynamo_ext.wording import article

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

    from dynamo_ext.records import Mode

MODES = ("optimize", "run")
COMPARE = "compare"
PARTS = ("graphs", "guards", "breaks", "fallbacks")
COMMANDS = (
    "backends",
    "explain",
    "report",
    *PARTS,
    "history",
    "diff",
    "use",
    "reset",
    "cache",
)
FLAGS = {
    "-b": "backend: a name, or a compiler function of yours",
    "--backend": "backend: a name, or a compiler function of yours",
    "--dynamic": "symbolic sizes from the start",
    "--static": "no symbolic sizes",
    "--fullgraph": "raise on a graph break (not with run)",
    "-o": "keep the report under this name",
    "--output": "keep the report under this name",
    "--profile": "also time every captured operation in eager",
    "--quiet": "run without showing the report",
    "--executor": "an executor of yours that carries auto's races",
    "--strict": "raise where the backend is not available",
    "--opt": "a backend option, KEY=VALUE",
}


@dataclass(frozen=True)
class CellArguments:
    """A parsed ``%%dynamo`` line; ``backend`` is ``None`` where the default is meant."""

    mode: Mode = "optimize"
    backend: str | None = None
    dynamic: bool | None = None
    fullgraph: bool = False
    output: str | None = None
    quiet: bool = False
    strict: bool = False
    executor: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    profile: bool = False


def cell_arguments(parsed: argparse.Namespace) -> CellArguments:
    """Check what ``argparse`` cannot.

    Raises
    ------
    OptionError
        For ``--dynamic`` with ``--static``, ``--fullgraph`` with ``run``, an empty ``-b`` or
        ``--executor``, an ``--opt`` that is no ``KEY=VALUE``, and an ``-o`` that is no name.
    """
    if parsed.dynamic and parsed.static:
        msg = "--dynamic and --static contradict each other."
        raise OptionError(msg, "Give one of them, or none for torch's own choice.")
    if parsed.fullgraph and parsed.mode == "run":
        msg = "--fullgraph does not go with run, which never compiles: it cannot promise one graph."
        raise OptionError(msg, "Leave one of them out.")
    dynamic = True if parsed.dynamic else False if parsed.static else None
    return CellArguments(
        parsed.mode or "optimize",
        given("-b", "backend", parsed.backend),
        dynamic,
        bool(parsed.fullgraph),
        check_name(parsed.output),
        bool(parsed.quiet),
        bool(parsed.strict),
        given("--executor", "executor", parsed.executor),
        tuple(key_and_value(text) for text in parsed.opt or ()),
        bool(parsed.profile),
    )


def unquoted(text: str) -> str:
    """The text without one pair of quotes around it (IPython's splitter keeps them)."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text


def given(flag: str, what: str, text: str | None) -> str | None:
    """What stands after a flag, without quotes; ``None`` without the flag.

    Raises
    ------
    OptionError
        Where it is empty.
    """
    if text is None:
        return None
    bare = unquoted(text)
    if not bare.strip():
        raise OptionError(lacking(flag, what))
    return bare


def check_name(output: str | None) -> str | None:
    """The ``-o`` name, if a variable can have it.

    Raises
    ------
    OptionError
        Where none can.
    """
    if output is not None and (not output.isidentifier() or keyword.iskeyword(output)):
        msg = f"-o {output} is not a name that a variable can have."
        raise OptionError(msg, "Give a Python name, as in -o report.")
    return output


def key_and_value(text: str) -> tuple[str, str]:
    """``--opt KEY=VALUE`` as a pair.

    Raises
    ------
    OptionError
        Where it is none.
    """
    key, equals, value = unquoted(text).partition("=")
    if not equals or not key.strip():
        msg = f"--opt {text} is not KEY=VALUE."
        raise OptionError(msg, "Write it as in --opt threads=2.")
    return key.strip(), unquoted(value.strip())


def check_output_name(name: str | None, namespace: dict[str, Any], stored: Collection[str]) -> None:
    """Refuse an ``-o`` that would overwrite something of the user's.

    Raises
    ------
    OptionError
        Where the cell itself assigns the name, or it holds anything but a report or comparison.
    """
    from dynamo_ext.comparing import ComparisonResult
    from dynamo_ext.records import Report

    if name is None:
        return
    if name in stored:
        msg = f"-o {name}: the cell itself assigns {name}."
        raise OptionError(msg, "Choose another name for the report.")
    if name in namespace and not isinstance(namespace[name], (Report, ComparisonResult)):
        kind = type(namespace[name]).__name__
        msg = f"-o {name} would overwrite your variable {name} ({article(kind)})."
        raise OptionError(msg, "Choose another name for the report.")
