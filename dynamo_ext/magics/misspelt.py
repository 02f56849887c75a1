"""What argparse cannot say of a line that it refuses: which word is wrong, and what was meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from IPython.core.error import UsageError
from IPython.utils.process import arg_split  # type: ignore[attr-defined,unused-ignore]

from dynamo_ext.errors import OptionError
from dynamo_ext.magics.arguments import COMMANDS, COMPARE, MODES
from dynamo_ext.magics.option_values import explain_values

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterator

_EXPRESSIONS = ("-b", "--backend", "--executor")


def closest(word: str, known: Collection[str]) -> str:
    """The known word that is most like this one; empty where none is alike."""
    near = difflib.get_close_matches(word.lower(), known, n=1)
    return near[0] if near else ""


def unreadable(line: str, error: ValueError) -> UsageError:
    """What to raise for a line that the shell's splitter refused."""
    said = str(error).rstrip(".")
    msg = f"%%dynamo {line.strip()} cannot be read: {said[:1].lower()}{said[1:]}."
    remedy = " Close the quote, or take it out." if "quotation" in said else ""
    return UsageError(msg + remedy)


def explain_several(text: str) -> None:
    """Point from ``-b onnxrt,inductor``, where one backend goes, to ``compare``.

    Raises
    ------
    OptionError
        Where the text lists names.
    """
    names = [name.strip() for name in text.split(",")]
    listed = [name for name in names if name]
    if len(names) > 1 and listed and all(name.isidentifier() for name in listed):
        msg = "-b takes one backend here."
        remedy = f"Several are compared by %%dynamo {COMPARE} -b {','.join(listed)}."
        raise OptionError(msg, remedy)


def explain_misspelt(line: str, parser: argparse.ArgumentParser) -> None:
    """Say what is wrong with a ``%%dynamo`` line that ``parser`` refused, where it can be told.

    Raises
    ------
    UsageError
        For an expression without quotes, an unknown option, a value too many or too few, and an
        unknown mode.
    OptionError
        For several backends.
    """
    words = arg_split(line)
    options = _options(parser)
    _explain_unquoted(words, options)
    explain_misspelt_option(line, parser)
    explain_values(line, parser)
    modes = list(_positional(words, options))
    stray = next((word for word in modes if word not in MODES), None)
    if stray is None and len(modes) > 1:
        msg = f"One mode goes on the line; leave out {' or '.join(modes)}."
        raise UsageError(msg)
    if stray is None:
        return
    near = closest(stray, (*MODES, COMPARE))
    if stray == COMPARE:
        msg = f"{COMPARE} comes first on the line: %%dynamo {COMPARE} -b …"
    elif stray in COMMANDS:
        msg = f"{stray} needs no cell: write %dynamo {stray} on a line of its own."
    elif near:
        msg = f"{stray} is no mode; did you mean {near}?"
    else:
        msg = f"{stray} is no mode; there are: {', '.join((*MODES, COMPARE))}."
    raise UsageError(msg)


def explain_compare(line: str, parser: argparse.ArgumentParser) -> None:
    """Say what is wrong with the rest of a ``compare`` line that ``parser`` refused.

    Raises
    ------
    UsageError
        For an unknown option, a value too many or too few, and a word that is no option's.
    """
    explain_misspelt_option(line, parser)
    explain_values(line, parser)
    stray = next(_positional(arg_split(line), _options(parser)), None)
    if stray in MODES:
        msg = f"{COMPARE} takes no mode; leave out {stray}."
        raise UsageError(msg)
    if stray is not None:
        rule = "backends go after -b, with commas and no spaces: -b inductor,onnxrt."
        msg = f"{stray} is left over; {rule}"
        raise UsageError(msg)


def explain_misspelt_option(line: str, parser: argparse.ArgumentParser) -> None:
    """Name the first option that ``parser`` does not have.

    Raises
    ------
    UsageError
        Where there is one.
    """
    options = _options(parser)
    for word in arg_split(line):
        name = word.partition("=")[0]
        # argparse takes the beginning of a long option, and a short one's value without a space.
        begins = any(known.startswith(name) for known in options)
        attached = not name.startswith("--") and name[:2] in options
        if not name.startswith("-") or not name.strip("-")[:1].isalpha() or begins or attached:
            continue
        near = closest(name, options)
        shown = ", ".join(known for known in options if known.startswith("--"))
        meant = f"did you mean {near}?" if near else f"there are: {shown}."
        msg = f"{name} is no option; {meant}"
        raise UsageError(msg)


def _options(parser: argparse.ArgumentParser) -> dict[str, bool]:
    """The parser's options, and whether each takes a value."""
    actions = parser._option_string_actions  # noqa: SLF001 - argparse offers no public list
    return {name: action.nargs != 0 for name, action in actions.items()}


def _explain_unquoted(words: list[str], options: Collection[str]) -> None:
    for index, flag in enumerate(words):
        if flag not in _EXPRESSIONS:
            continue
        rest = words[index + 1 :]
        ends = (i for i, word in enumerate(rest) if word in options or word.startswith("--"))
        end = next(ends, len(rest))
        said = " ".join(rest[:end])
        if flag != "--executor" and end > 1:
            explain_several(said)
        if end > 1 and (said.startswith("lambda") or _is_expression(said)):
            quote = "'" if '"' in said else '"'
            msg = f"Quote an expression that has spaces: {flag} {quote}{said}{quote}"
            raise UsageError(msg)


def _is_expression(text: str) -> bool:
    try:
        compile(text, "<option>", "eval")
    except (SyntaxError, ValueError):
        return False
    return True


def _positional(words: list[str], options: dict[str, bool]) -> Iterator[str]:
    """The words that are neither options nor their values."""
    value = False
    for word in words:
        if not value and not word.startswith("-"):
            yield word
        # argparse takes the beginning of a long option.
        begun = [name for name in options if word.startswith("--") and name.startswith(word)]
        value = not value and options.get(word, bool(begun) and options[begun[0]])
