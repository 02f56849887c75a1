"""What argparse cannot say of an option's value: what the option takes, and how it is written."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from IPython.core.error import UsageError
from IPython.utils.process import arg_split  # type: ignore[attr-defined,unused-ignore]

if TYPE_CHECKING:
    import argparse

_EXAMPLES = {
    "backend": "onnxrt",
    "backends": "inductor,onnxrt",
    "output": "report",
    "opt": "threads=2",
    "executor": "pool",
    "rounds": "20",
    "budget": "30",
    "compile_budget": "300",
    "baseline": "eager",
    "dtype": "bfloat16",
    "seed": "1",
}
_NUMBER = re.compile(r"-\d+$|-\d*\.\d+$")


def explain_values(line: str, parser: argparse.ArgumentParser) -> None:
    """Name the first option that lacks its value, has one that it does not take, or is cut short.

    Raises
    ------
    UsageError
        Where there is one.
    """
    value = False
    for word, following in pairwise([*arg_split(line), ""]):
        value = not value and word.startswith("-") and _takes_next(word, following, parser)


def _takes_next(word: str, following: str, parser: argparse.ArgumentParser) -> bool:
    """Whether the next word is this option's value."""
    name, equals, value = word.partition("=")
    actions = parser._option_string_actions  # noqa: SLF001 - argparse offers no public list
    found = [name] if name in actions else _begun(name, list(actions))
    if len({actions[each] for each in found}) > 1:
        msg = f"{name} may be {' or '.join(found)}; write it out."
        raise UsageError(msg)
    if not found:
        return False
    action = actions[found[0]]
    if action.nargs == 0:
        if equals:
            msg = f"{name} takes no value; leave out ={value}."
            raise UsageError(msg)
        return False
    if not equals and (not following or _is_option(following)):
        raise UsageError(lacking(name, action.dest))
    return not equals


def lacking(flag: str, what: str) -> str:
    """Say that a flag's value is missing, with an example; ``what`` is the argument's name."""
    return f"{flag} needs a value, as in {flag} {_EXAMPLES[what]}."


def _begun(name: str, options: list[str]) -> list[str]:
    """The long options that begin so: argparse takes the beginning of one."""
    return [each for each in options if name.startswith("--") and each.startswith(name)]


def _is_option(word: str) -> bool:
    return word.startswith("-") and " " not in word and not _NUMBER.match(word)
