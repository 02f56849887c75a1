"""Graph breaks and capture failures, read out of torch's messages.

They follow one template (torch/_dynamo/exc.py, ``format_graph_break_message``): the reason,
``Explanation:``, ``Hint:`` lines, ``Developer debug context:``, a link with the registry id.
"""

import re

from dynamo_ext.capture.code.syntax import leaves, loop_around
from dynamo_ext.capture.torch_private.patches.registry import ABOUT_COMPILING, RECURRENT
from dynamo_ext.records.capture import BreakKind, GraphBreak
from dynamo_ext.records.common import SourceLine

_LINK = re.compile(r"(?P<link>https://\S*?/(?P<id>gb\d{4})\.html)")
_FIELD = re.compile(r"^[ \t]*(Explanation|Hint|Developer debug context):", re.MULTILINE)
_REST = re.compile(
    r"^\s*(?:from user code|For more details about this graph break|Set TORCH)", re.MULTILINE
)
_BRANCH = re.compile(
    r"The branch condition involves a tensor computed as follows:\s*"
    r"# File \".*?\", line (?P<line>\d+), in .*?, code: (?P<code>[^\n]+)(?:\n.*?)?(?=\n\s*Hint:)",
    re.DOTALL,
)
_NOISE = (
    "Please report an issue to PyTorch",
    "It may be possible to write Dynamo tracing rules",
    "Your code may result in an error when running in eager",
    "If it is a Python builtin, please file an issue",
    "Set TORCHDYNAMO_VERBOSE",
    "from user code",
)
_CONDITIONS = ("if", "elif", "while")
_BUG = "likely to be a Dynamo bug"
"""Torch says so of names that do not exist too; what it could not trace may be the user's error."""

MISSING_NAME = "gb0354"
"""Torch's page on a global name that is neither defined nor a builtin."""

DEFINE_IT = "Define it before this code first runs; %dynamo reset has the code captured again."
_MISSING = re.compile(r"Failed to find name `(?P<name>[^`]+)`")


def graph_break(
    text: str, line: SourceLine | None, stack: tuple[SourceLine, ...] = ()
) -> GraphBreak:
    """Torch's message as a record; an unknown layout becomes the reason alone."""
    link = _LINK.search(text)
    body = _REST.split(text[: link.start()] if link else text, maxsplit=1)[0]
    lines = (map(str.strip, part.splitlines()) for part in _FIELD.split(body))
    reason, *rest = (" ".join(filter(None, each)) for each in lines)
    fields: dict[str, list[str]] = {"Explanation": [], "Hint": [], "Developer debug context": []}
    for field, said in zip(rest[::2], rest[1::2], strict=True):
        fields[field].append(said)
    page, address = (link["id"], link["link"]) if link else ("", "")
    reason, explanation = reason or "unknown reason", " ".join(fields["Explanation"])
    kind, hints, name = _kind(reason), fields["Hint"], ""
    if kind == "about_compiling":
        name = " ".join(fields["Developer debug context"])
    if page == MISSING_NAME and (missing := _MISSING.match(explanation)):
        name = missing["name"]
        reason = f"The name `{name}` was not defined when Dynamo traced this code"
        explanation, hints, address = "", [DEFINE_IT], ""
    hints = [h for h in hints if h and not h.startswith(_NOISE) and _BUG not in h]
    message = page, _plain(reason, kind), explanation, tuple(hints), address
    return GraphBreak(*message, line, stack, kind=kind, name=name, leaves_loop=_leaves_loop(line))


def _leaves_loop(line: SourceLine | None) -> bool:
    if line is None or not line.code.startswith(_CONDITIONS):
        return False
    loop = loop_around(line.file, line.line)
    return loop is not None and leaves(loop, line.line)


def in_users_words(text: str, cell_file: str | None) -> str:
    """The message with places named as the user knows them, not by a cell's file name."""
    text = _BRANCH.sub(lambda m: f"`{m['code'].strip()}` (line {m['line']}).", text)
    return text.replace(cell_file, "the cell") if cell_file else text


_ANNOTATE = "Consider annotating your code"
_KINDS: tuple[tuple[str, BreakKind], ...] = (
    ("generic_jump", "branch"),
    ("Data-dependent branching", "branch"),
    ("RuntimeError when making fake tensor call", "fake_tensor"),
    (ABOUT_COMPILING, "about_compiling"),
    (RECURRENT, "recurrent"),
    ("call `torch.from_numpy`", "numpy"),
    ("Uninitialized nn.Module", "module"),
    ("Attempted to inline function marked as skipped", "skipped"),
)
"""How torch's own reasons begin."""


def _kind(reason: str) -> BreakKind:
    if reason.startswith(_ANNOTATE):
        return "branch" if "Could not guard on" in reason else "number"
    return next((kind for start, kind in _KINDS if reason.startswith(start)), "")


def _plain(reason: str, kind: BreakKind) -> str:
    """Reasons that are internal names, or a page for torch's developers, in words."""
    if reason.startswith(("generic_jump", _ANNOTATE)):
        return f"Data-dependent {'branching' if kind == 'branch' else 'number'}"
    if reason == "step_unsupported":
        return "Dynamo cannot trace this instruction (often `del` of a global name)"
    return reason
