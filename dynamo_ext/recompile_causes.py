"""Recompiles by cause: what changed from call to call, and what lets one graph serve all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamo_ext.records import NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamo_ext.records import Recompile

_SIZE = re.compile(r"size mismatch at index (?P<dim>\d+)")
_FLOAT = re.compile(r"^-?\d+\.\d*(?:e[+-]?\d+)?$|^-?\d+e[+-]?\d+$|^-?inf$|^nan$")
_INTEGER = re.compile(r"^-?\d+$")
_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
}


SEE_GUARDS = "See Guards for what was expected."
"""The step where no more is known than the guard itself."""


_SUBJECTS = (
    re.compile(
        r"^(?:tensor|parameter) '(?P<subject>.+?)' "
        r"(?:size|rank|dtype|device|stride|requires_grad|d)"
    ),
    re.compile(r"^len\((?P<subject>.+?)\) [!=]="),
    re.compile(r"^(?P<subject>[^\W\d].*?) (?:==|is the same object)"),
)


@dataclass(frozen=True)
class Changes:
    """Recompiles with one cause.

    ``kind`` is a key of ``_KINDS``, or ``float``, ``integer``, ``value``, ``class``, ``code`` or
    ``other``; ``variable`` is the expression that changed; ``what`` says what changed, as a noun
    (``the batch size of `x```), ``values`` what it was, in order, without repeats; ``step`` is
    what to do, and there is nothing to gain by it where ``harmless``.
    """

    kind: str
    variable: str
    what: str
    step: str
    times: int
    values: tuple[str, ...]
    prevented: bool = False
    harmless: bool = False


def changes(recompiles: Sequence[Recompile]) -> tuple[Changes, ...]:
    """Group recompiles by what changed, the most frequent first.

    Parameters
    ----------
    recompiles
        As recorded, in the order in which they happened.
    """
    groups: dict[tuple[str, str, str, bool], list[Recompile]] = {}
    for each in recompiles:
        kind = _kind(each)
        size = _SIZE.search(each.guard)
        dim = size["dim"] if size else ""
        groups.setdefault((kind, _subject(each), dim, each.prevented), []).append(each)
    found = [_group(kind, name, dim, group) for (kind, name, dim, _), group in groups.items()]
    return tuple(sorted(found, key=lambda each: -each.times))


_KINDS = (
    ("hooks", re.compile(r"\._(?:forward|backward)_(?:pre_)?hooks")),
    # Before any other tensor's: a layer was replaced, no batch came.
    ("parameter", re.compile(r"^parameter '.+' size mismatch")),
    ("parameter rank", re.compile(r"^parameter '.+' rank mismatch")),
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
    ("object", re.compile(r" is the same object$")),
    ("type", re.compile(r"check_type_id")),
)


def _kind(each: Recompile) -> str:
    for kind, pattern in _KINDS:
        if pattern.search(each.guard):
            return kind
    if _INTEGER.match(each.expected):
        return "float" if _FLOAT.match(each.actual) else "integer"
    if _FLOAT.match(each.expected):
        return "float"
    return "value" if each.expected and each.actual else "other"


def _subject(each: Recompile) -> str:
    """What changed, as an expression: ``batch['ids']`` where the variable is ``batch``."""
    found = (pattern.search(each.guard) for pattern in _SUBJECTS)
    # Facts about sizes are told of the variable.
    named = next((m["subject"] for m in found if m and ".size()" not in m["subject"]), "")
    return named.removesuffix(".__code__") or each.variable


def _group(kind: str, variable: str, dim: str, group: Sequence[Recompile]) -> Changes:
    name = f"`{variable}`" if variable else "what the code relies on"
    if kind == "object" and f"{variable}.__code__ is" in group[0].guard:
        kind = "code"
    if kind == "type" and all("." in each.expected for each in group):
        kind = "class"
    seen = [v for each in group for v in (each.expected, each.actual) if v]
    # Of an object the report knows no more than that it is another one.
    values = [] if kind in {"object", "code"} else [_named(v) for v in seen]
    what, step = _words(kind, name, variable, dim, many=len(group) > 1)
    times = sum(each.count for each in group)
    return Changes(
        kind,
        variable,
        what,
        step,
        times,
        tuple(dict.fromkeys(values)),
        group[0].prevented,
        step.startswith(NOTHING),
    )


def _named(value: str) -> str:
    return _DTYPES.get(value, value)


def _words(kind: str, name: str, variable: str, dim: str, *, many: bool) -> tuple[str, str]:
    if kind == "size":
        of = "the batch size of" if dim == "0" else f"dimension {dim} of"
        mark = f"torch._dynamo.mark_dynamic({variable}, {dim})"
        return f"{of} {name}", f"Mark it dynamic: %%dynamo --dynamic, or {mark}."
    if kind in {"parameter", "parameter rank"}:
        what = f"the size of dimension {dim}" if dim else "the number of dimensions"
        step = f"{NOTHING} if the layer was meant to be replaced: each shape is compiled once."
        if many:
            step = (
                "Each shape of a weight has its own compiled code; keep the number of them small."
            )
        return f"{what} of the parameter {name}", step
    if kind in {"integer", "float"}:
        kept = "torch.tensor(…)"
        if kind == "float":
            return f"the float {name}", f"Keep it in a tensor: {variable} = {kept}."
        once = (
            f"{NOTHING}: it was a constant at first, and from its second value on it is symbolic."
        )
        step = f"Keep it in a tensor, {kept}, or start with %%dynamo --dynamic."
        return f"the integer {name}", step if many else once
    if kind == "hooks":
        step = f"{NOTHING}: what hooks a module has is compiled in. Add them before the first call."
        return "the hooks of a module", step
    sentences = {
        "bound": (
            "a size that the compiled code leaves out, of",
            f"{NOTHING}: sizes 0 and 1 are compiled apart from all others, once.",
        ),
        "relation": (
            "sizes that agreed before and do not now, of",
            f"{NOTHING}, if both are meant: broadcasting is compiled apart.",
        ),
        "rank": ("the number of dimensions of", "Reshape it to one rank before the compiled code."),
        "dtype": ("the dtype of", "Cast it to one dtype before the compiled code."),
        "device": ("the device of", "Move it to one device before the compiled code."),
        "stride": ("the memory layout of", "Call .contiguous() on it before the compiled code."),
        "grad": (
            "requires_grad of",
            "Pass it with the same requires_grad each time; for inference, under torch.no_grad().",
        ),
        "length": ("the length of", "Stack its tensors into one, or pad it to one length."),
        "object": (
            "the object behind",
            "Make it once, before the compiled code, and pass the same one each time.",
        ),
        "code": (
            "the function",
            f"{NOTHING} if you defined it anew; else define it once, outside of the loop.",
        ),
        "class": ("the class of", f"{NOTHING} if another one is meant to be there."),
        "type": ("the type of", "Pass values of one type."),
        "value": (
            "the value of",
            "Each value has its own compiled code; keep the number of values small.",
        ),
    }
    lead, step = sentences.get(kind, ("", SEE_GUARDS))
    return f"{lead} {name}".strip(), step
