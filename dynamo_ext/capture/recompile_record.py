"""A failed guard's text as what was expected and what came.

Torch writes one line for each compiled version that did not fit, such as
``0/0: tensor 'x' size mismatch at index 0. expected 4, actual 6`` or ``0/1: n == 1``; most name
what was expected, and what came is read from the frame.
"""

from __future__ import annotations

import re
from collections import ChainMap
from typing import TYPE_CHECKING, Any

from dynamo_ext.capture.guard_record import TORCH_COMMENT, readable_source, root_variable
from dynamo_ext.capture.source_lines import from_trace_text, users_line
from dynamo_ext.records import Recompile, SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PREFIX = re.compile(r"^\s*-?\s*\[?\d+/\d+\]?:\s*")
_EXPECTED = re.compile(r"expected (?P<expected>.+?),? actual (?P<actual>.+?)(?=$|\s{2,}|\.$)")
_PARAMETER_HINT = re.compile(r"\.?\s*Guard failed on a parameter, consider using .*$", re.DOTALL)
"""Torch's advice to make weights dynamic, in the line that says what failed."""

_PARAMETER = re.compile(r"^tensor '.*\._parameters\['[^']+'\]' ")
_GRAD = re.compile(r"expected requires_grad=(?P<expected>[01])")
_QUOTED = re.compile(r"tensor '(?P<source>.+?)'(?= |$)")
# A dict's length is told by what failed, a list's by what held.
_LENGTH = re.compile(r"^len\((?P<source>.+?)\) [!=]= (?P<expected>\d+)$")
_OBJECT = re.compile(r"_*check_obj_id\((?P<source>.+?), \d+\)(?:, type=<.+>)?")
_TYPE = re.compile(r"check_type_id\((?P<source>.+?), \d+\)(?:, type=<class '(?P<expected>.+?)'>)?")
_NONE = re.compile(r"^(?P<source>[^\W\d].*?) is (?P<expected>None)$")
_EQUAL = re.compile(r"^(?P<source>[^\W\d].*?) == (?P<expected>.+)$")
_AT_LEAST = re.compile(r"^(?P<expected>-?\d+) <= (?P<source>[^\W\d].*)$")
_AT_MOST = re.compile(r"^(?P<source>[^\W\d].*?) <= (?P<expected>-?\d+)$")
_NAMED = re.compile(r"[LG]\['[^']+'\][\w.\[\]']*")
_LONGEST = 80


def recompile_record(  # noqa: PLR0913 - a record's fields, and where to read them
    frame: str,
    function: str,
    reason: str,
    scopes: Mapping[str, Mapping[str, Any]],
    line: SourceLine | None,
    *,
    prevented: bool = False,
    cell_file: str | None = None,
    arguments: Sequence[str] = (),
) -> Recompile:
    """Put one failed guard into a record.

    Parameters
    ----------
    frame, function
        The compile id and the name of the function that no compiled version fitted.
    reason
        Torch's text, with the user stack below it where torch knows one.
    scopes
        The frame's locals ``L`` and globals ``G``.
    line
        Where to point if torch names no line.
    prevented
        Whether the frame ran eagerly instead of being compiled again.
    cell_file
        The file name of the cell that ran.
    arguments
        The user's names of what the frame knows as ``args``.
    """
    text = TORCH_COMMENT.sub("", _PREFIX.sub("", reason.strip().splitlines()[0])).strip()
    hinted = _PARAMETER_HINT.search(text) is not None
    text = _PARAMETER_HINT.sub("", text)
    source, expected, actual = _facts(text, scopes)
    named = _NAMED.search(text)
    source = source or (named.group() if named else "")
    # An object's number says nothing to a reader, and is another one in every process.
    text = _OBJECT.sub(lambda m: f"{m['source']} is the same object", text)
    if hinted or _PARAMETER.match(text):
        text = text.replace("tensor '", "parameter '", 1)
    guard = _NAMED.sub(lambda m: readable_source(m.group(), arguments), text)
    where = users_line(from_trace_text(reason, cell_file)) or line
    variable = root_variable(source, arguments)
    return Recompile(frame, function, guard, variable, expected, actual, where, prevented)


def _facts(text: str, scopes: Mapping[str, Mapping[str, Any]]) -> tuple[str, str, str]:
    quoted = _QUOTED.search(text)
    source = quoted["source"] if quoted else ""
    both = _EXPECTED.search(text)
    if both:
        return source, both["expected"], both["actual"].rstrip(".")
    grad = _GRAD.search(text)
    if grad:
        asked = grad["expected"] == "1"
        return source, f"requires_grad={asked}", f"requires_grad={not asked}"
    for pattern, read in _FORMS:
        found = pattern.search(text)
        if found:
            return found["source"], found["expected"] or "", _came(found["source"], scopes, read)
    held = _OBJECT.search(text)
    if held:
        return held["source"], "the same object", _came(held["source"], scopes, _object)
    for pattern, words in ((_AT_LEAST, "at least"), (_AT_MOST, "at most")):
        bound = pattern.search(text)
        if bound:
            came = _came(bound["source"], scopes, _shown)
            return bound["source"], f"{words} {bound['expected']}", came
    return source, "", ""


def _came(source: str, scopes: Mapping[str, Mapping[str, Any]], read: Callable[[Any], str]) -> str:
    names = ChainMap(dict(scopes), dict(scopes.get("L", {})), dict(scopes.get("G", {})))
    try:
        # Dynamo's own source expression; it evaluated the same text a moment ago.
        return read(eval(source, {"__builtins__": {}}, names))  # noqa: S307
    except Exception:  # noqa: BLE001 - a value for display only
        return ""


def _shown(value: Any) -> str:
    if value is None or isinstance(value, (int, float, str, bool)):
        text = repr(value)
        return text if len(text) < _LONGEST else f"{text[: _LONGEST - 1]}…"
    return type(value).__name__


def _object(value: Any) -> str:
    name = getattr(value, "__name__", "")
    return f"another one ({name})" if name else f"another {type(value).__name__}"


def _type_name(value: Any) -> str:
    kind = type(value)
    home = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{home}{kind.__qualname__}"


_FORMS: tuple[tuple[re.Pattern[str], Callable[[Any], str]], ...] = (
    (_LENGTH, lambda value: str(len(value))),
    (_TYPE, _type_name),
    (_NONE, _shown),
    (_EQUAL, _shown),
)
