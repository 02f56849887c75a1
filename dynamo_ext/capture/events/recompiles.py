"""A failed guard's text as what was expected and what came.

Torch writes a line for each version that did not fit, such as ``0/1: n == 1`` or ``0/0: tensor 'x'
size mismatch at index 0. expected 4, actual 6``; what came may have to be read from the frame.
"""

import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from dynamo_ext.capture.code.source_lines import from_trace_text, users_line
from dynamo_ext.capture.events.guards import TORCH_COMMENT, readable_source, root_variable
from dynamo_ext.formatting import clip
from dynamo_ext.records.capture import Recompile, RecompileKind
from dynamo_ext.records.common import SourceLine

_PREFIX = re.compile(r"^\s*-?\s*\[?\d+/\d+\]?:\s*")
_EXPECTED = re.compile(r"expected (?P<expected>.+?),? actual (?P<actual>.+?)(?=$|\s{2,}|\.$)")
_PARAMETER_HINT = re.compile(r"\.?\s*Guard failed on a parameter, consider using .*$", re.DOTALL)
"""Torch's advice to make weights dynamic, in the line that says what failed."""

_PARAMETER = re.compile(r"^tensor '.*\._parameters\['[^']+'\]' ")
_GRAD = re.compile(r"expected requires_grad=(?P<expected>[01])")
_NAMED = re.compile(r"[LG]\['[^']+'\][\w.\[\]']*|\b___stack\d+")
_SIZE = re.compile(r"size mismatch at index (?P<dim>\d+)")
_FLOAT = re.compile(r"^-?\d+\.\d*(?:e[+-]?\d+)?$|^-?\d+e[+-]?\d+$|^-?inf$|^nan$")
_INTEGER = re.compile(r"^-?\d+$")
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
    source, kind, facts = _facts(text, scopes)
    is_parameter = hinted or _PARAMETER.match(text) is not None

    def readable(part: str) -> str:
        return _NAMED.sub(lambda m: readable_source(m.group(), arguments), part)

    # Facts about sizes are reported for the variable.
    has_subject = kind != "type" and "bound" not in facts and ".size()" not in source
    subject = readable(source).removesuffix(_CODE) if has_subject else ""
    named = _NAMED.search(text)
    source = source or (named.group() if named else "")
    text = readable(text)
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
        line=users_line(from_trace_text(reason, cell_file)) or line,
        prevented=prevented,
        kind=_kind(text, kind, facts, is_parameter=is_parameter),
        subject=subject,
        dimension=int(size["dim"]) if size else None,
        resumed=resumed,
        **facts,
    )


def _facts(
    text: str, scopes: Mapping[str, Mapping[str, Any]]
) -> tuple[str, RecompileKind, dict[str, Any]]:
    """Source, kind where the form of the text tells it, and other fields of the record."""
    tensor = _TENSOR.search(text)
    source = tensor["source"] if tensor else ""
    kind = _TENSOR_KINDS.get(tensor["what"], "") if tensor else ""
    if grad := _GRAD.search(text):
        asked = grad["expected"] == "1"
        return source, kind, {"expected": str(asked), "actual": str(not asked)}
    if both := _EXPECTED.search(text):
        values = {end: _dtype(value.rstrip(".")) for end, value in both.groupdict().items()}
        return source, kind, values
    for pattern, form, read, more in _FORMS:
        if found := re.search(pattern, text):
            source = found["source"]
            came = _came(source, scopes, read)
            ends = filter(None, (found["expected"], found.groupdict().get("most")))
            return source, form, {"expected": " to ".join(ends), "actual": came, **more}
    if held := _OBJECT.search(text):
        source = held["source"]
        name = _came(source, scopes, lambda value: str(getattr(value, "__name__", "")))
        of = _came(source, scopes, lambda value: type(value).__name__)
        facts = {"expected": "", "actual": name, "actual_type": of, "is_object": True}
        return source, "code" if source.endswith(_CODE) else "object", facts
    return source, kind, {"expected": "", "actual": ""}


def _kind(
    text: str, kind: RecompileKind, facts: Mapping[str, Any], *, is_parameter: bool
) -> RecompileKind:
    for about, pattern in _ABOUT:
        if pattern.search(text):
            return about
    # Not any other tensor's: a layer was replaced, no batch came.
    if is_parameter and kind in {"size", "rank"}:
        return "parameter" if kind == "size" else "parameter rank"
    expected, actual = facts["expected"], facts["actual"]
    if kind or "bound" in facts:
        return kind or ("value" if actual else "")
    if _FLOAT.match(expected) or (_INTEGER.match(expected) and _FLOAT.match(actual)):
        return "float"
    if _INTEGER.match(expected):
        return "integer"
    return "value" if expected and actual else ""


def _came(source: str, scopes: Mapping[str, Mapping[str, Any]], read: Callable[[Any], str]) -> str:
    names = ChainMap(dict(scopes), dict(scopes.get("L", {})), dict(scopes.get("G", {})))
    try:
        # Dynamo's own source expression; it evaluated the same text a moment ago.
        return read(eval(source, {"__builtins__": {}}, names))  # noqa: S307
    except Exception:  # noqa: BLE001 - a value for display only
        return ""


def _shown(value: Any) -> str:
    if value is None or isinstance(value, (int, float, str, bool)):
        return clip(repr(value), _LONGEST)
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    return type(value).__name__


def _dtype(said: str) -> str:
    """``float32`` for ``Float``, as guards call it; any other text as it is."""
    kind = getattr(torch, f"{said}Tensor", None)
    return said if kind is None else str(kind.dtype).removeprefix("torch.")


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


_TENSOR = re.compile(r"tensor '(?P<source>.+?)'(?: (?P<what>\w+) mismatch|(?= |$))")
_TENSOR_KINDS: dict[str, RecompileKind] = {
    "size": "size", "rank": "rank", "dtype": "dtype", "device": "device",
    "requires_grad": "grad", "stride": "stride",
}  # fmt: skip
_ID = r"(?P<source>.+?), \d+\)"
_OBJECT = re.compile(rf"_*check_obj_id\({_ID}(?:, type=<.+>)?")
_ABOUT: tuple[tuple[RecompileKind, re.Pattern[str]], ...] = (
    ("hooks", re.compile(r"\._(?:forward|backward)_(?:pre_)?hooks")),
    # A graph with symbolic sizes still relies on facts about them.
    ("bound", re.compile(r"\.size\(\)\[\d+\].*<=|<=.*\.size\(\)\[\d+\]")),
    ("relation", re.compile(r"\.size\(\)\[\d+\]")),
)
_FORMS: tuple[tuple[str, RecompileKind, Callable[[Any], str], dict[str, str]], ...] = (
    # A dict's length is read from the guard that failed, a list's from those that held.
    (r"^len\((?P<source>.+?)\) [!=]= (?P<expected>\d+)$", "length", lambda v: str(len(v)), {}),
    (rf"check_type_id\({_ID}(?:, type=<class '(?P<expected>.+?)'>)?", "type", _type_name, {}),
    (r"^(?P<source>[^\W\d].*?) is (?P<expected>None)$", "", _shown, {}),
    (r"^(?P<source>[^\W\d].*?) == (?P<expected>.+)$", "", _shown, {}),
    (
        r"^(?P<expected>-?\d+) <= (?P<source>[^\W\d].*?) <= (?P<most>-?\d+)$",
        "",
        _shown,
        {"bound": ""},
    ),
    (r"^(?P<expected>-?\d+) <= (?P<source>[^\W\d].*)$", "", _shown, {"bound": "least"}),
    (r"^(?P<source>[^\W\d].*?) <= (?P<expected>-?\d+)$", "", _shown, {"bound": "most"}),
)
