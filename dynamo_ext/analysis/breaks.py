"""Graph breaks in the words of the user's code: what splits the graph, and what joins it.

Registry ids are those of torch 2.13.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from dynamo_ext.analysis.break_location import ON_PURPOSE, is_in_torch, is_optimizers, origin
from dynamo_ext.analysis.source_hints import chooses_by_reading, condition, leaves_value, reader
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.report import Fallback, Report


@dataclass(frozen=True)
class Cause:
    """Why a graph ends at a line, as a clause, and what to do, as a sentence.

    ``harmless``: capture could not gain anything there. Not ``known``: the words are torch's.
    ``outside`` is what to do where the line cannot be changed.
    """

    because: str
    step: str
    harmless: bool = False
    known: bool = True
    outside: str = ""


_READS = "Keep it a tensor and read it after the compiled code"
BUILD_BEFORE = "Build it before the compiled code, as in a cell of its own."
_NOTHING = "Nothing needs to be done."
_SCALARS = "set torch._dynamo.config.capture_scalar_outputs = True."
_SHAPES = "set torch._dynamo.config.capture_dynamic_output_shape_ops = True."
_LOGGERS = "add the method to torch._dynamo.config.ignore_logging_functions."
_QUOTED_NAME = re.compile(r"`(?P<name>[\w.<> ]+?)\.?`")
_SKIPPED = re.compile(r"(?:builtin|function|method) `(?P<name>[\w.<> ]+?)\.?`")
_UNHELPFUL = ("file an issue", "report an issue", "removing the `torch.compile` call")
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
_PLAIN = re.compile(r"Dynamo does not (?:yet )?(?:support|know how to) [^\n]{,80}?(?=\.(?:\s|$))")
_OBJECT = re.compile(r"<(?:built-in )?(?:function|method) (?P<name>[\w.]+)[^>]*>")


def cause_of(graph_break: GraphBreak) -> Cause:
    """Why a graph ends at a break and what to do: in our words if it is common, else in torch's."""
    known = _KNOWN.get(graph_break.registry_id) or _KNOWN.get(graph_break.kind, _unknown)
    return known if isinstance(known, Cause) else known(graph_break)


def _unknown(graph_break: GraphBreak) -> Cause:
    """In torch's words, its first hint that is about the user's code."""
    hints = [hint for hint in graph_break.hints if not any(words in hint for words in _UNHELPFUL)]
    step = _named(hints[0]) if hints else ""
    if found := _PLAIN.match(graph_break.explanation):
        return Cause(found[0], step)
    reason = _named(graph_break.reason.strip().rstrip("."))
    said = f" ({reason})" if reason else ""
    return Cause(f"Dynamo cannot trace it{said}", step, known=False)


def _named(text: str) -> str:
    """Torch's text with functions called by their names."""
    return _OBJECT.sub(r"`\g<name>`", text)


def break_of(report: Report, fallback: Fallback) -> GraphBreak | None:
    """The break that a frame's failure is, where it is recorded as one."""
    index = fallback.break_index
    return report.breaks[index] if index is not None and index < len(report.breaks) else None


def remedy(report: Report, fallback: Fallback) -> str:
    """What helps against a break's cause, and the capture's own remedy if it is about the place."""
    cut = break_of(report, fallback)
    cause = cause_of(cut) if cut is not None else None
    if cause is not None and fallback.cause == "loop":
        # What splits a graph without harm keeps a function with a loop around it from capture.
        return fallback.remedy if cause.harmless else f"{cause.step} {fallback.remedy}".strip()
    return (cause.step if cause is not None else "") or fallback.remedy


def _code(graph_break: GraphBreak) -> str:
    line = origin(graph_break)
    return line.code if line is not None else ""


def _item(graph_break: GraphBreak) -> Cause:
    if any(line.function == "_detect_is_causal_mask" for line in graph_break.stack):
        why = "torch reads its mask to find out whether it is causal"
        return Cause(why, "Pass is_causal=True or is_causal=False with the mask.")
    code = _code(graph_break)
    if chooses_by_reading(code):
        # Capturing the number would only move the break to the choice.
        return _branch(graph_break)
    found = reader(code)
    who = f"`{found}`" if found else "it"
    return Cause(f"{who} reads a value out of a tensor", f"{_READS}.", outside=_SCALARS)


def _branch(graph_break: GraphBreak) -> Cause:
    word = condition(_code(graph_break))
    steps = {
        "while": "Run a fixed number of steps, and keep a value with torch.where.",
        "assert": "Check it before or after the compiled code.",
    }
    who = f"its `{word}`" if word else "it"
    choose = "If both sides take little time, compute both and choose with torch.where."
    if graph_break.leaves_loop:
        choose = "Run every step, and keep a value with torch.where once the loop would have ended."
    return Cause(f"{who} asks for the value of a tensor", steps.get(word, choose))


def _on_purpose(graph_break: GraphBreak) -> Cause:
    if not is_in_torch(graph_break):
        return Cause("torch._dynamo.graph_break() is called there", "Take the call away.")
    own = "optimizer" if is_optimizers(graph_break.stack[-1]) else "code"
    return Cause(f"torch's own {own} ends a graph there", _NOTHING, harmless=True)


def _reordered(graph_break: GraphBreak) -> Cause:
    found = _OBJECT.search(" ".join(graph_break.hints))
    name = found["name"] if found else "print"
    return Cause(
        f"`{name}` is given what cannot wait until the graph has run",
        "Give it tensors, numbers and text alone, or call it after the compiled code.",
    )


def _builtin(graph_break: GraphBreak) -> Cause:
    found = _QUOTED_NAME.search(graph_break.explanation)
    if not found:
        return _unknown(graph_break)
    name = found["name"]
    if name == "print":
        return Cause(
            "it prints",
            "Print after the compiled code, or, if late output will do, add print to "
            "torch._dynamo.config.reorderable_logging_functions.",
        )
    if name == "open":
        return Cause("it opens a file", "Read the file before the compiled code.")
    return Cause(
        f"Dynamo cannot trace the builtin `{name}` on these arguments",
        f"Call `{name}` before or after the compiled code.",
    )


def _builds(what: str) -> Cause:
    return Cause(f"it builds {what}", BUILD_BEFORE, outside=BUILD_BEFORE)


def _skipped(graph_break: GraphBreak) -> Cause:
    found = _SKIPPED.search(graph_break.explanation)
    name = found["name"].strip(". ") if found else ""
    name = name.replace("<unknown module>.", "").replace("Random.", "random.")
    is_optimizer = name == "Optimizer.add_param_group" and is_in_torch(graph_break)
    if is_optimizer or name.endswith(".__init__"):
        return _builds("an optimizer" if is_optimizer else f"a `{name.removesuffix('.__init__')}`")
    why = f"Dynamo does not trace `{name}`"
    if name == "Optimizer.zero_grad":
        return Cause(f"{why}, which computes nothing", _NOTHING, harmless=True)
    if "warn" in name:
        return Cause("it warns", "Warn before or after the compiled code.")
    if not name:
        return Cause(
            "it calls what Dynamo does not trace", "Call it before or after the compiled code."
        )
    wrap = ", or make it a torch.library.custom_op" if "C/C++" in graph_break.explanation else ""
    step = f"Call `{name}` before the compiled code and pass what it gives{wrap}."
    if name.endswith("__"):
        step = "Do this before the compiled code, as in a cell of its own."
    elif leaves_value(_code(graph_break), name):
        step = f"Call `{name}` before or after the compiled code."
    return Cause(why, step)


def _parameter(graph_break: GraphBreak) -> Cause:
    if is_in_torch(graph_break) and graph_break.stack[-1].function == "_apply":
        step = "Convert it before the compiled code."
        return Cause("it converts a module", step, outside=step)
    return _builds("a layer or another torch.nn.Parameter")


def _attribute(graph_break: GraphBreak) -> Cause:
    if graph_break.stack and is_optimizers(graph_break.stack[-1]):
        return _builds("an optimizer")
    return _unknown(graph_break)


def _iterated(graph_break: GraphBreak) -> Cause:
    line = origin(graph_break)
    if line is not None and line.function in COMPREHENSIONS:
        because = "a comprehension cannot go on after a graph break"
        return Cause(because, "Write the loop as a `for` statement.")
    if "generator" not in graph_break.explanation:
        because = "it iterates over an object of a class that Dynamo cannot iterate over"
        return Cause(because, "Give a list in its place.")
    return Cause(
        "it takes from a generator that Python has made",
        "Give a list in its place, as in list(model.parameters()).",
    )


def _context(graph_break: GraphBreak) -> Cause:
    found = _QUOTED_NAME.search(graph_break.explanation)
    name = f" `{found['name']}`" if found else ""
    return Cause(
        f"Dynamo cannot enter the context manager{name}",
        "Enter it around the compiled code, not inside.",
    )


def _missing_name(graph_break: GraphBreak) -> Cause:
    name = f"`{graph_break.name}`" if graph_break.name else "a name there"
    step = graph_break.hints[0] if graph_break.hints else "Define it before this code first runs."
    return Cause(f"{name} was not defined when Dynamo traced this code", step)


def _about_compiling(graph_break: GraphBreak) -> Cause:
    who = f"`{graph_break.name}`" if graph_break.name else "it"
    return Cause(f"{who} tells torch how to compile", f"Call {who} before the compiled code.")


# By the registry's id of a break, or by its kind.
_KNOWN: dict[str, Cause | Callable[[GraphBreak], Cause]] = {
    **dict.fromkeys(("gb0007", "gb0008", "skipped"), _skipped),
    ON_PURPOSE: _on_purpose,
    **dict.fromkeys(("gb0033", "gb0124"), _item),
    **dict.fromkeys(("gb0035", "gb0170", "branch"), _branch),
    "gb0036": Cause(
        "the size of a result depends on the data (`nonzero`, `unique`, indexing by a mask)",
        f"Keep the size and mask the values with torch.where, or {_SHAPES}",
        outside=_SHAPES,
    ),
    "gb0039": Cause(
        "it was compiled as often as torch allows",
        "Keep a number that changes from run to run in a tensor, and mark changing sizes with "
        "%%dynamo --dynamic.",
    ),
    "gb0055": Cause(
        "a value there cannot go into a graph", "Give it tensors and Python's own numbers alone."
    ),
    "gb0059": _builtin,
    "gb0088": Cause(
        "an exception goes through it while Dynamo traces it",
        "If the line runs without an error by itself, Dynamo cannot trace it: move it before or "
        "after the compiled code.",
    ),
    **dict.fromkeys(
        ("gb0098", "gb0099"),
        Cause("the code keeps it out by torch.compiler.disable", _NOTHING, harmless=True),
    ),
    **dict.fromkeys(
        ("gb0105", "gb0231", "gb0290", "gb0293", "numpy"),
        Cause(
            "it goes through NumPy, which stays NumPy",
            "Use torch's own function, or call NumPy before the compiled code.",
        ),
    ),
    "gb0109": Cause("`.tolist()` reads the values of a tensor", f"{_READS}."),
    **dict.fromkeys(("gb0119", "module"), _builds("a module")),
    "gb0123": Cause(
        "`backward()` is called there, whose graphs are compiled with the forward's",
        _NOTHING,
        harmless=True,
    ),
    "gb0142": _context,
    "gb0264": _parameter,
    "gb0291": Cause(
        "it logs", f"Log before or after the compiled code, or {_LOGGERS}", outside=_LOGGERS
    ),
    "gb0296": _reordered,
    "gb0354": _missing_name,
    **dict.fromkeys(("gb0811", "gb4347"), _iterated),
    "gb0467": _attribute,
    "gb4198": Cause("it deep-copies a tensor", "Use .clone()."),
    **dict.fromkeys(
        ("gb4315", "fake_tensor"),
        Cause(
            "an operation there fails when Dynamo tries it on sizes alone",
            "If eager raises there too, fix it; else move it before or after the compiled code.",
        ),
    ),
    "gb8985": Cause(
        "requires_grad_() is called on a tensor that leaves the graph",
        "Call it before the compiled code, or return .detach().",
    ),
    "number": Cause(
        "it needs a number that is read out of a tensor",
        "Read the number before the compiled code and pass it.",
    ),
    "about_compiling": _about_compiling,
    "recurrent": Cause(
        "a recurrent layer runs there in torch's own kernel", _NOTHING, harmless=True
    ),
}
