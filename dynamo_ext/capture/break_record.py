"""Graph breaks and capture failures, read out of torch's messages.

Since torch 2.8 every message follows one template: the reason, ``Explanation:``, ``Hint:`` lines,
``Developer debug context:`` and a link that ends in the registry id (torch/_dynamo/exc.py,
``format_graph_break_message``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dynamo_ext.records import GraphBreak, SourceLine

_LINK = re.compile(r"(?P<link>https://\S*?/(?P<id>gb\d{4})\.html)")
_FIELD = re.compile(r"^\s*(?P<name>Explanation|Hint|Developer debug context):\s*(?P<text>.*)$")
_BRANCH = re.compile(
    r"The branch condition involves a tensor computed as follows:\s*"
    r"# File \".*?\", line (?P<line>\d+), in .*?, code: (?P<code>[^\n]+)(?:\n.*?)?(?=\n\s*Hint:)",
    re.DOTALL,
)
_NOISE = ("Please report an issue to PyTorch", "Set TORCHDYNAMO_VERBOSE", "from user code")
_BUG = "likely to be a Dynamo bug"
"""Torch says so of names that do not exist too; what it could not trace may be the user's error."""

_ASK_FOR_RULES = "It may be possible to write Dynamo tracing rules"
EXCEPTION = "gb0088"
"""Torch's page on an exception that goes through the traced code: most often the user's own."""

MISSING_NAME = "gb0354"
"""Torch's page on a global name that is neither defined nor a builtin."""

DEFINE_IT = "Define it before this code first runs; %dynamo reset has the code captured anew."
_MISSING = re.compile(r"Failed to find name `(?P<name>[^`]+)`")


@dataclass(frozen=True)
class BreakMessage:
    """The parts of torch's message; ``context`` is what its developers ask for."""

    reason: str
    explanation: str
    hints: tuple[str, ...]
    context: str
    registry_id: str
    link: str


def parse_message(text: str) -> BreakMessage:
    """Split a graph-break message into its parts; unknown layouts become the reason alone."""
    link = _LINK.search(text)
    body = text[: link.start()] if link else text
    body = body.split("\n\nfrom user code")[0].split("\nfrom user code")[0]
    reason: list[str] = []
    fields: dict[str, list[str]] = {"Explanation": [], "Hint": [], "Developer debug context": []}
    current: list[str] = reason
    for line in body.splitlines():
        found = _FIELD.match(line)
        if found:
            current = fields[found["name"]]
            current.append(found["text"].strip())
        elif line.strip().startswith(("For more details about this graph break", "Set TORCH")):
            current = []
        elif not line.strip():
            continue
        elif current is reason or not current:
            current.append(line.strip())
        else:
            current[-1] = f"{current[-1]} {line.strip()}".strip()
    page = link["id"] if link else ""
    explanation, context = (
        " ".join(fields[name]) for name in ("Explanation", "Developer debug context")
    )
    missing = _MISSING.match(explanation) if page == MISSING_NAME else None
    if missing:
        said = missing_name(missing["name"])
        return BreakMessage(said, "", (DEFINE_IT,), context, page, "")
    hints = tuple(h for h in fields["Hint"] if _is_about_the_code(h, page))
    return BreakMessage(
        " ".join(reason) or "unknown reason",
        explanation,
        hints,
        context,
        page,
        link["link"] if link else "",
    )


def missing_name(name: str) -> str:
    """The reason of a break at a name that does not exist, which may by now."""
    return f"The name `{name}` was not defined when Dynamo came by"


def _is_about_the_code(hint: str, page: str) -> bool:
    if not hint or hint.startswith(_NOISE) or _BUG in hint:
        return False
    return not (page == EXCEPTION and hint.startswith(_ASK_FOR_RULES))


def in_users_words(text: str, cell_file: str | None) -> str:
    """The message with places named as the user knows them, not by a cell's file name."""
    text = _BRANCH.sub(lambda m: f"`{m['code'].strip()}` (line {m['line']}).", text)
    return text.replace(cell_file, "the cell") if cell_file else text


def graph_break(text: str, line: SourceLine | None, stack: tuple[SourceLine, ...]) -> GraphBreak:
    """The record of one break; the user's line and the stack come from the caller."""
    message = parse_message(text)
    return GraphBreak(
        message.registry_id,
        _plain(message.reason),
        message.explanation,
        message.hints,
        message.link,
        line,
        stack,
    )


def _plain(reason: str) -> str:
    """Reasons that are internal names, or a page for torch's developers, in words."""
    if reason.startswith("generic_jump"):
        return "Data-dependent branching"
    if reason.startswith("Consider annotating your code"):
        return f"Data-dependent {'branching' if 'Could not guard on' in reason else 'number'}"
    if reason == "step_unsupported":
        return "Dynamo cannot trace this instruction (often `del` of a global name)"
    return reason
