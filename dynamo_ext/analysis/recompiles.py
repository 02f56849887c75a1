"""Recompiles by cause: what changed from call to call, and what lets one graph serve all."""

from collections.abc import Sequence
from dataclasses import dataclass

from dynamo_ext.analysis.break_location import is_optimizers, line_in_words, package
from dynamo_ext.analysis.guards import actual, expected
from dynamo_ext.analysis.source_hints import OPTIMIZER
from dynamo_ext.records.capture import BETWEEN_GRAPHS, Recompile, RecompileKind

_NOTHING = "Nothing needs to be done"
"""How a step begins where nothing could be gained."""

_HARMLESS = frozenset({"hooks", "bound", "relation", "code", "class"})
_HARMLESS_ONCE = frozenset({"", "parameter", "parameter rank", "integer"})


@dataclass(frozen=True)
class Changes:
    """Recompiles with one cause.

    ``what`` changed, as a noun (``the batch size of `x```), from and to ``values``, without
    repeats; ``step`` is what to do. ``harmless``: nothing to gain by it. ``seconds`` is what
    compiling took, 0 where that is not known.
    """

    what: str
    step: str
    times: int
    values: tuple[str, ...]
    prevented: bool = False
    harmless: bool = False
    seconds: float = 0.0


def changes(recompiles: Sequence[Recompile]) -> tuple[Changes, ...]:
    """Group recompiles, in the order in which they happened, by what changed.

    Where the inputs of a function changed, those after its graph breaks that changed likewise are
    taken to come of it, and counted there.
    """
    groups: dict[tuple[RecompileKind, str, int | None, bool], list[Recompile]] = {}
    causes = {(each.function, each.kind): each for each in reversed(recompiles) if not each.resumed}
    for each in recompiles:
        of = causes.get((each.function, each.kind), each) if each.resumed else each
        key = (of.kind, _computed(of) or of.subject or of.variable, of.dimension, of.prevented)
        groups.setdefault(key, []).append(each)
    found = [_group(kind, name, dim, group) for (kind, name, dim, _), group in groups.items()]
    return tuple(sorted(found, key=lambda each: -each.times))


def _computed(recompile: Recompile) -> str:
    """What a value without a name is: a part of an expression that a graph break divides."""
    if recompile.variable != BETWEEN_GRAPHS:
        return ""
    link = "that" if recompile.kind in {"float", "integer"} else "what"
    return f"{link} {line_in_words(recompile.line) or 'the code before a graph break'} computes"


def _group(kind: str, variable: str, dim: int | None, group: Sequence[Recompile]) -> Changes:
    own = [each for each in group if not each.resumed] or group
    ours = _computed(own[0])
    name = ours or (f"`{variable}`" if variable else "what the code relies on")
    # Only what the caller has can be marked, or made a tensor, before the call.
    theirs = ours or own[0].resumed or variable.startswith("args[") or package(own[0].line)
    given = "" if theirs else variable
    if kind == "object" and not (ours or own[0].function == "<module>"):
        name += f" in `{own[0].function}`"
    if kind in {"float", "length"} and is_optimizers(own[0].line):
        kind = "optimizer"
    if kind == "type" and all("." in each.expected for each in own):
        kind = "class"
    # Of an object the report knows no more than that it is another one.
    told = [] if kind in {"object", "code"} else own
    values = [v for each in told for v in (expected(each), actual(each)) if v]
    many = len(own) > 1
    what, step = _words(kind, name, given, dim, many=many)
    if kind == "type" and set(values) <= {"int", "float"}:
        # As floats they would compile again for each value.
        _, step = _words("float", name, given, dim, many=many)
    return Changes(
        what,
        step,
        sum(each.count for each in group),
        tuple(dict.fromkeys(values)),
        group[0].prevented,
        kind in _HARMLESS or (kind in _HARMLESS_ONCE and not many),
        sum(each.compile_seconds for each in group),
    )


def _words(kind: str, name: str, given: str, dim: int | None, *, many: bool) -> tuple[str, str]:
    match kind:
        case "size":
            of = "the batch size of" if dim == 0 else f"dimension {dim} of"
            mark = f", or torch._dynamo.mark_dynamic({given}, {dim})" if given else ""
            return f"{of} {name}", f"Mark it dynamic: %%dynamo --dynamic{mark}."
        case "parameter" | "parameter rank":
            what = "the number of dimensions" if dim is None else f"the size of dimension {dim}"
            step = f"{_NOTHING} if the layer was meant to be replaced: each shape is compiled once."
            if many:
                step = "Each shape of a weight has its own compiled code; keep their number small."
            return f"{what} of the parameter {name}", step
        case "float":
            made = f": {given} = torch.tensor(…)" if given else ""
            return f"the float {name}", f"Keep it in a tensor{made}."
        case "integer":
            why = "it was a constant at first, and from its second value on it is symbolic"
            keep = "Keep it in a tensor, torch.tensor(…), or start with %%dynamo --dynamic."
            return f"the integer {name}", keep if many else f"{_NOTHING}: {why}."
        case "hooks":
            why = "what hooks a module has is compiled in. Add them before the first call"
            return "the hooks of a module", f"{_NOTHING}: {why}."
    lead, step = _SENTENCES.get(kind, ("", "See Guards for what was expected."))
    return f"{lead} {name}".strip(), step


_SENTENCES = {
    "optimizer": (
        "the optimizer's",
        f"Leave its step to eager: {OPTIMIZER}.step = torch.compiler.disable({OPTIMIZER}.step).",
    ),
    "bound": (
        "a size outside the range that the compiled code covers, of",
        f"{_NOTHING}: sizes 0 and 1, and each side of an `if` on a size, are compiled once.",
    ),
    "relation": (
        "sizes that agreed before and do not now, of",
        f"{_NOTHING}, if both are meant: torch compiles broadcasting separately.",
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
        "the object",
        "Make it once, before the compiled code, and pass the same one each time.",
    ),
    "code": (
        "the function",
        f"{_NOTHING} if you redefined it; else define it once, outside of the loop.",
    ),
    "class": ("the class of", f"{_NOTHING} if another one is meant to be there."),
    "type": ("the type of", "Pass values of one type."),
    "value": (
        "the value of",
        (
            "Each value has its own compiled code; keep the number of values small, or set it "
            "once, before the compiled code."
        ),
    ),
}
