"""Reading a line, and what to add to what argparse says where it refuses: what was meant."""

import argparse
import difflib
import re
from collections.abc import Collection
from typing import NoReturn

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from dynamo_ext.errors import OptionError
from dynamo_ext.magics.arguments import COMMANDS, COMPARE, MODES

_STRAY = re.compile(r"(?:unrecognized arguments: |mode: invalid choice: ')(?P<word>[^\s']+)")

_NAMES = re.compile(r"[a-z_]\w*(?:[:,]\w+)*")
"""Names of backends, with or without a precision."""


def closest(word: str, names: Collection[str]) -> str:
    """The known word that is most like this one; empty where none is alike."""
    near = difflib.get_close_matches(word.lower(), names, n=1)
    return near[0] if near else ""


def parse(parser: MagicArgumentParser, line: str) -> argparse.Namespace:
    """Read a line; raise ``UsageError`` where ``parser``, or the shell's splitter, refuses it."""
    try:
        parsed: argparse.Namespace = parser.parse_argstring(line)
    except ValueError as error:
        said = str(error).rstrip(".")
        message = f"{line.strip()} cannot be read: {said}. Close the quotes."
    except UsageError as error:
        said = str(error).rstrip(".").replace("(choose from ", f"(choose from '{COMPARE}', ")
        options = [name for name in options_of(parser) if name.startswith("--")]
        # What argparse makes of the word behind an option that it does not know says nothing.
        unknown = _unknown_option(line, options)
        remedy = _stray_word(line, said)
        if "--backend: expected" in said:
            remedy = "Name one: %dynamo backends lists them."
        message = unknown or f"{said[:1].upper()}{said[1:]}. {remedy}".rstrip()
    else:
        return parsed
    raise UsageError(message)


def refuse(command: str, text: str = "") -> NoReturn:
    """Raise ``UsageError`` for a command that is written otherwise than ``COMMANDS`` has it."""
    message = f"{text} Write it as {COMMANDS[command][2]}.".lstrip()
    raise UsageError(message)


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    """Its options as they are typed, short and long."""
    # argparse offers no public list.
    return list(parser._option_string_actions)  # noqa: SLF001


def explain_several(text: str) -> None:
    """Point from ``-b onnxrt,inductor``, where one backend goes, to ``compare``."""
    names = [name.strip() for name in text.split(",")]
    if len(names) > 1 and any(names) and all(name.isidentifier() for name in filter(None, names)):
        msg = "-b takes one backend here."
        remedy = f"Several are compared by %%dynamo {COMPARE} -b {','.join(filter(None, names))}."
        raise OptionError(msg, remedy)


def _unknown_option(line: str, options: Collection[str]) -> str:
    names = [word.partition("=")[0] for word in line.split() if word.startswith("--")]
    # argparse takes the beginning of a long option.
    name = next((n for n in names if not any(known.startswith(n) for known in options)), "")
    return f"{name} is not an option. {_meant(name, options)}" if name else ""


def _stray_word(line: str, said: str) -> str:
    found = _STRAY.search(said)
    if found is None:
        return ""
    word, modes = found["word"], (*MODES, COMPARE)
    before = line.partition(f" {word}")[0]
    names = f"{before.rpartition(' ')[2]}{word}"
    quoted = 'Quote an expression that has spaces, as in -b "lambda graph, inputs: graph".'
    is_name = _NAMES.fullmatch(word) is not None and not closest(word, modes)
    ways = [
        ("(" in before or "lambda" in before, quoted),
        (before.endswith(","), f"Several backends have no spaces: %%dynamo {COMPARE} -b {names}."),
        (word in COMMANDS, f"Write %dynamo {word} on a line of its own."),
        (word in modes, f"One mode goes on the line, and it comes first: {', '.join(modes)}."),
        (word[0] in "<>=", 'A bound has no spaces: --accuracy "cosine>=0.999".'),
        (is_name, f"A backend goes behind -b: -b {word}."),
    ]
    return next((said for holds, said in ways if holds), "") or _meant(word, modes)


def _meant(word: str, names: Collection[str]) -> str:
    near = closest(word, names)
    return f"Did you mean {near}?" if near else f"There are: {', '.join(names)}."
