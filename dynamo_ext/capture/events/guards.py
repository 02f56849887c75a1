"""Guards as records, and torch's sources as a user would write them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dynamo_ext.capture.code.source_lines import line_of
from dynamo_ext.records.capture import BETWEEN_GRAPHS, Guard

_ROOT = re.compile(r"^[LG]\['(?P<name>[^']+)'\]")
_BUILTIN = re.compile(r"^G\['__builtins_dict\w*'\]\['(?P<name>[^']+)'\]")
_IMPORTED = re.compile(r"^__import_(?P<name>\w+)")
# Dynamo stores what a closure or a registry holds under the object's number.
_OURS = re.compile(r"^_+(?:[a-z]+_)?(?:\d{6,}_)+c\d+$")
_TYPE_OF = re.compile(r"^type\((?P<source>[LG]\[.+)\)$")
# What a graph leaves on the stack for the one after it.
_STACK = re.compile(r"\b___stack(?P<place>\d+)\b")
_ARGUMENT = re.compile(r"L\['args'\]\[(?P<index>\d+)\]")
_KEYWORD = re.compile(r"L\['kwargs'\]\['(?P<name>\w+)'\]")
_BARE = re.compile(r"^(?P<name>[^\W\d]\w*)(?=$|[.\[])")
_LENGTH = re.compile(r"^len\([LG]\[.+?\) == (?P<expected>\d+)$")
_COMPARED = r"^[LG]\[.+? == (?P<expected>.+?)$"
_EXPECTED = {
    "EQUALS_MATCH": _COMPARED,
    "CONSTANT_MATCH": _COMPARED,
    "DUPLICATE_INPUT": r"^(?P<expected>[LG]\[.+?) is [LG]\[",
    "TYPE_MATCH": r"type=<class '(?:builtins\.)?(?P<expected>[^']+)'>",
    "BOOL_MATCH": r" == (?P<expected>True|False)$",
}
TORCH_COMMENT = re.compile(r"\s+#\s.*$", re.DOTALL)
_QUIET_KINDS = frozenset({"DIMENSION_DYNAMIC_MARKING_GUARD"})


def readable_source(source: str, arguments: Sequence[str] = ()) -> str:
    """``L['self']._modules['fc'].weight`` as ``self.fc.weight``; ``args[0]`` by ``arguments``."""
    typed = _TYPE_OF.match(source)
    if typed:
        return f"type({readable_source(typed['source'], arguments)})"
    source = _user_named(source, arguments)
    text = _BUILTIN.sub(lambda m: m["name"], source)
    text = _ROOT.sub(lambda m: _OURS.sub("an object that Dynamo keeps", m["name"]), text)
    text = _IMPORTED.sub(lambda m: m["name"].replace("_dot_", "."), text)
    tables = r"(?:\.?_modules|\._parameters|\._buffers|\.__dict__)"
    text = re.sub(tables + r"\['([^']+)'\]", r".\1", text)
    return _STACK.sub(rf"value \g<place> {BETWEEN_GRAPHS}", text)


def _user_named(source: str, arguments: Sequence[str]) -> str:
    if not arguments:
        return source

    def named(found: re.Match[str]) -> str:
        index = int(found["index"])
        return f"L['{arguments[index]}']" if index < len(arguments) else found[0]

    source = _KEYWORD.sub(r"L['\g<name>']", _ARGUMENT.sub(named, source))
    source = source.replace("L['args']", "L['the arguments']")
    return source.replace("L['kwargs']", "L['the keyword arguments']")


def root_variable(source: str, arguments: Sequence[str] = ()) -> str:
    """The user's name that a source starts at; a library's for its modules, else ``torch``."""
    typed = _TYPE_OF.match(source)
    source = _user_named(typed["source"] if typed else source, arguments)
    # torch names a local tensor bare: tensor 'x' size mismatch.
    found = _ROOT.match(source) or _BARE.match(source)
    name = found["name"] if found else "torch"
    if name.startswith("__import_"):
        return name.removeprefix("__import_").split("_dot_")[0]
    if _STACK.match(name):
        return BETWEEN_GRAPHS
    return "torch" if name.startswith("__builtins_dict") or _OURS.match(name) else name


def guard_record(
    frame: str,
    guard: Any,
    cell_file: str | None,
    shapes: Mapping[str, tuple[str, ...]],
    arguments: Sequence[str],
) -> Guard:
    """One of Dynamo's guards as a record.

    ``shapes`` has the captured sizes of inputs by source; ``arguments`` are the names of ``args``.
    """
    source = guard.name or ""
    kinds = guard.guard_types or [guard.create_fn_name()]
    kind = next((k for k in kinds if k not in _QUIET_KINDS), kinds[0])
    code = tuple(guard.code_list or ())
    line = line_of(guard.user_stack or (), cell_file)
    known = guard.obj_weakref() if guard.obj_weakref is not None else None
    value = known if isinstance(known, torch.Tensor) else None
    expected, is_length = _expected(kind, code)
    if kind == "DUPLICATE_INPUT":
        expected = readable_source(expected, arguments)
    sizes = shapes.get(source, tuple(map(str, value.shape))) if value is not None else ()
    return Guard(
        frame,
        root_variable(source, arguments),
        source,
        kind,
        code=code,
        line=line,
        subject=readable_source(source, arguments),
        expected=expected,
        is_length=is_length,
        dtype=str(value.dtype).removeprefix("torch.") if value is not None else "",
        device=str(value.device) if value is not None else "",
        shape=sizes,
        requires_grad=value is not None and value.requires_grad,
    )


def _expected(kind: str, code: tuple[str, ...]) -> tuple[str, bool]:
    """What a value, type or length must be, as torch's text has it; and whether it is a length."""
    text = TORCH_COMMENT.sub("", code[0]) if code else ""
    if length := _LENGTH.match(text):
        return length["expected"], True
    found = re.search(_EXPECTED[kind], text) if kind in _EXPECTED else None
    return found["expected"] if found else "", False
