"""What to do next: each step with its evidence and the part of the report that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.formatting import clip, printable, remedy, sentence
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, element, prose, quiet_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamo_ext.analysis.advice import Advice

MAX_STEPS = 5
_MAX_CHARS = 300


def first(found: Sequence[Advice]) -> str:
    """The most useful step as prose; empty where there is none."""
    return _prose(found[0]) if found else ""


def html(found: Sequence[Advice]) -> Markup:
    """The evidence of the first step, and the others; empty where there is none."""
    if not found:
        return EMPTY
    parts = [element("p", _evidence(found[0]), class_="dx-evidence dx-quiet")]
    if len(found) > 1:
        items = [
            element("li", prose(_prose(each)), " ", quiet_words(_evidence(each)))
            for each in found[1:MAX_STEPS]
        ]
        parts += [element("p", "Then:", class_="dx-then"), element("ol", *items, start="2")]
    if len(found) > MAX_STEPS:
        parts.append(markup.quiet(f"{len(found) - MAX_STEPS:,} more."))
    return markup.join(parts)


def text(found: Sequence[Advice]) -> str:
    """The same for a terminal."""
    if not found:
        return ""
    lines = [plain_text.paragraph(_evidence(found[0]), "  ", "  ")]
    lines += [
        plain_text.paragraph(f"{_prose(each)} {_evidence(each)}", "     ", f"  {number}. ")
        for number, each in enumerate(found[1:MAX_STEPS], 2)
    ]
    return "\n".join(lines)


def parts(found: Sequence[Advice]) -> tuple[str, ...]:
    """Titles of the parts that the steps point to, in their order, each once."""
    return tuple(dict.fromkeys(each.part for each in found[:MAX_STEPS]))


def _prose(each: Advice) -> str:
    step = clip(" ".join(printable(each.step).split()), _MAX_CHARS)
    problem = sentence(clip(printable(each.problem), _MAX_CHARS))
    return f"{problem} {remedy(step, 'Install it with: ')}".strip()


def _evidence(each: Advice) -> str:
    lead = f"{each.evidence[0].upper()}{each.evidence[1:]}" if each.evidence else ""
    return f"{sentence(lead)} See {each.part}.".strip()
