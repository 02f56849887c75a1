"""A failed guard's text as what was expected and what came.

Torch writes a line for each version that did not fit, such as ``0/1: n == 1`` or ``0/0: tensor 'x'
size mismatch at index 0. expected 4, actual 6``; what came may have to be read from the frame.
"""

import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from dynamo_ext.capture.report.guards import TORCH_COMMENT, readable_source, root_variable
from dynamo_ext.capture.report.source_lines import from_trace_text, users_line
from dynamo_ext.records.capture import Recompile, RecompileKind
from dynamo_ext.records.common import SourceLine

_PREFIX = re.compile(r"^\s*-?\s*\[?\d+/\d+\]?:\s*")
_EXPECTED = re.compile(r"expected (?P<expected>.+?),? actual (?P<actual>.+?)(?=$|\s{2,}|\.$)")
_PARAMETER_HINT = re.compile(r"\.?\s*Guard failed on a parameter, consider using .*$", re.DOTALL)
"""Torch's advice to make weights dynamic, in the line that says what failed."""

_PARAMETER = re.compile(r"^tensor '.*\._parameters\['[^']+'\]' ")
_GRAD = re.compile(r"expected requires_grad=(?P<expected>[01])")
_QUOTED = re.compile(r"tensor '(?P<source>.+?)'(?= |$)")
# A dict's length is read from the guard that failed, a list's from those that held.
_LENGTH = re.compile(r"^len\((?P<source>.+?)\) [!=]= (?P<expected>\d+)$")
_OBJECT = re.compile(r"_*check_obj_id\((?P<source>.+?), \d+\)(?:, type=<.+>)?")
_TYPE = re.compile(r"check_type_id\((?P<source>.+?), \d+\)(?:, type=<class '(?P<expected>.+?)'>)?")
_NONE = re.compile(r"^(?P<source>[^\W\d].*?) is (?P<expected>None)$")
_EQUAL = re.compile(r"^(?P<source>[^\W\d].*?) == (?P<expected>.+)$")
_AT_LEAST = re.compile(r"^(?P<expected>-?\d+) <= (?P<source>[^\W\d].*)$")
_AT_MOST = re.compile(r"^(?P<source>[^\W\d].*?) <= (?P<expected>-?\d+)$")
_NAMED = re.compile(r"[LG]\['[^']+'\][\w.\[\]']*")
_CODE = ".__code__"
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
    resumed: bool = False,
) -> Recompile:
    """Put one failed guard into a record.

    ``reason`` is torch's text, with a user stack where torch knows one; else ``line`` is the
    record's. ``scopes`` has the frame's locals ``L`` and globals ``G``, ``arguments`` the names of
    ``args``. ``prevented``: the frame ran eagerly; ``resumed``: it goes on after a graph break.
    """
    text = TORCH_COMMENT.sub("", _PREFIX.sub("", reason.strip().splitlines()[0])).strip()
    hinted = _PARAMETER_HINT.search(text) is not None
    text = _PARAMETER_HINT.sub("", text)
    source, expected, actual, more = _facts(text, scopes)
    is_parameter = hinted or _PARAMETER.match(text) is not None
    named = _NAMED.search(text)
    source = source or (named.group() if named else "")
    text = _NAMED.sub(lambda m: readable_source(m.group(), arguments), text)
    # An object's number says nothing to a reader, and is another one in every process.
    guard = _OBJECT.sub(lambda m: f"{m['source']} is the same object", text)
    if is_parameter:
        guard = guard.replace("tensor '", "parameter '", 1)
    size = _SIZE.search(text)
    return Recompile(
        frame,
        function,
        guard,
        root_variable(source, arguments),
        expected,
        actual,
        users_line(from_trace_text(reason, cell_file)) or line,
        prevented,
        kind=_kind(text, more.get("bound", "") + expected, actual, is_parameter=is_parameter),
        subject=_subject(text),
        dimension=int(size["dim"]) if size else None,
        resumed=resumed,
        **more,
    )


_SIZE = re.compile(r"size mismatch at index (?P<dim>\d+)")
_FLOAT = re.compile(r"^-?\d+\.\d*(?:e[+-]?\d+)?$|^-?\d+e[+-]?\d+$|^-?inf$|^nan$")
_INTEGER = re.compile(r"^-?\d+$")
_KINDS: tuple[tuple[RecompileKind, re.Pattern[str]], ...] = (
    ("hooks", re.compile(r"\._(?:forward|backward)_(?:pre_)?hooks")),
    ("size", _SIZE),
    # A graph with symbolic sizes still relies on facts about them.
    ("bound", re.compile(r"\.size\(\)\[\d+\].*<=|<=.*\.size\(\)\[\d+\]")),
    ("relation", re.compile(r"\.size\(\)\[\d+\]")),
    ("rank", re.compile(r"rank mismatch")),
    ("dtype", re.compile(r"dtype mismatch")),
    ("device", re.compile(r"device mismatch")),
    ("grad", re.compile(r"requires_grad mismatch")),
    ("stride", re.compile(r"stride mismatch at index")),
    ("length", re.compile(r"^len\(")),
    ("code", re.compile(rf"(?:{_OBJECT.pattern})$")),
    ("type", re.compile(r"check_type_id")),
)
_SUBJECTS = (
    re.compile(r"^tensor '(?P<subject>.+?)' (?:size|rank|dtype|device|stride|requires_grad|d)"),
    re.compile(r"^len\((?P<subject>.+?)\) [!=]="),
    re.compile(r"^(?P<subject>[^\W\d].*?) (?:==|is None)"),
)


def _kind(text: str, expected: str, actual: str, *, is_parameter: bool) -> RecompileKind:
    for kind, pattern in _KINDS:
        found = pattern.search(text)
        if found and kind == "code":
            return "code" if found["source"].endswith(_CODE) else "object"
        # Not any other tensor's: a layer was replaced, no batch came.
        if found and is_parameter and kind in {"size", "rank"}:
            return "parameter" if kind == "size" else "parameter rank"
        if found:
            return kind
    if _INTEGER.match(expected):
        return "float" if _FLOAT.match(actual) else "integer"
    if _FLOAT.match(expected):
        return "float"
    return "value" if expected and actual else ""


def _subject(text: str) -> str:
    """What differed, as an expression: ``batch['ids']`` where the variable is ``batch``."""
    held = _OBJECT.search(text)
    if held:
        return held["source"].removesuffix(_CODE)
    found = (pattern.search(text) for pattern in _SUBJECTS)
    # Facts about sizes are reported for the variable.
    return next((m["subject"] for m in found if m and ".size()" not in m["subject"]), "")


def _facts(
    text: str, scopes: Mapping[str, Mapping[str, Any]]
) -> tuple[str, str, str, dict[str, Any]]:
    """Source, expected, actual, and other fields of the record."""
    quoted = _QUOTED.search(text)
    source = quoted["source"] if quoted else ""
    both = _EXPECTED.search(text)
    if both:
        return source, both["expected"], both["actual"].rstrip("."), {}
    grad = _GRAD.search(text)
    if grad:
        asked = grad["expected"] == "1"
        return source, str(asked), str(not asked), {}
    for pattern, read in _FORMS:
        found = pattern.search(text)
        if found:
            came = _came(found["source"], scopes, read)
            return found["source"], found["expected"] or "", came, {}
    held = _OBJECT.search(text)
    if held:
        kind = _came(held["source"], scopes, lambda value: type(value).__name__)
        name = _came(held["source"], scopes, lambda value: str(getattr(value, "__name__", "")))
        return held["source"], "", name, {"is_object": True, "actual_type": kind}
    for pattern, bound in ((_AT_LEAST, "least"), (_AT_MOST, "most")):
        found = pattern.search(text)
        if found:
            came = _came(found["source"], scopes, _shown)
            return found["source"], found["expected"], came, {"bound": bound}
    return source, "", "", {}


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
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    return type(value).__name__


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
