"""Guards in words, by variable; those that failed come first, with expected and actual."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dynamo_ext.analysis.guards import actual, condition, expected
from dynamo_ext.analysis.recompiles import changes
from dynamo_ext.formatting import clip, count, function_name, place, sentence
from dynamo_ext.records.report import Guard, Recompile, Report
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, code, element, prose, unbroken

_Guards = list[tuple["Guard", list[str]]]
"""Guards, each with the frames that have it."""

TITLE = "Guards"
FAILED = "Guards that failed"
NOTHING = "No guard was recorded: nothing was compiled or reused in this run."
_OTHER = "other conditions"
_FEW = 4  # variables with at most this many guards share one table
_ROWS = 200
_TEXT_ROWS = 6


def html(report: Report) -> Markup:
    """Failures as a table, then every variable with its guards."""
    parts: list[object] = []
    if words := _number(report):
        parts.append(element("p", words))
    if report.recompiles:
        parts += [element("h4", FAILED), _failures(report)]
    groups = _groups(report)
    if groups and report.recompiles:
        parts.append(element("h4", "All guards"))
    few = {name: guards for name, guards in groups.items() if len(guards) <= _FEW}
    if few:
        parts.append(_table("Guards by variable", few, named=True))
    parts += [_group(name, guards) for name, guards in groups.items() if name not in few]
    return element("div", *parts) if parts else EMPTY


def text(report: Report) -> str:
    """Render the same for a terminal, the first guards of each variable only."""
    parts = [plain_text.paragraph(words)] if (words := _number(report)) else []
    if report.recompiles:
        parts.append(f"{FAILED}:\n{failures_text(report)}")
    for name, guards in _groups(report).items():
        lines = [f"{name}: {count(_total(guards), 'guard')}"]
        for guard, frames in guards[:_TEXT_ROWS]:
            on = f" ({', '.join(frames)})" if len(frames) > 1 else ""
            lines.append(plain_text.paragraph(f"{condition(guard)}{on}", "    ", "  · "))
        if len(guards) > _TEXT_ROWS:
            lines.append(f"  … {_total(guards[_TEXT_ROWS:]):,} more")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def failures_text(report: Report) -> str:
    """What came instead of what each failed guard expects, and what helps."""
    lines = []
    for each in report.recompiles:
        lead = f"  {each.variable or each.guard or function_name(each.function)}: "
        said = f"{_came(each)}; {_then(report, each)}."
        lines.append(plain_text.paragraph(said, "    ", lead))
        if each.guard and expected(each):
            lines.append(plain_text.paragraph(clip(each.guard, 160), "      "))
        if step := _step(each):
            lines.append(plain_text.step(step))
    return "\n".join(lines)


def _number(report: Report) -> str:
    frames = [f for f in report.frames if f.guards]
    if not frames:
        return ""
    number = count(sum(f.guards for f in frames), "guard")
    return f"{number} on {count(len(frames), 'function')}."


def _failures(report: Report) -> Markup:
    rows = [
        [
            element("b", each.variable or "—"),
            clip(expected(each), 200) or "—",
            clip(actual(each), 200) or "—",
            f"{each.count:,}",
            _then(report, each),
            " · ".join(filter(None, [function_name(each.function), place(each.line)])),
            code(clip(each.guard, 200)),
            prose(_step(each)),
        ]
        for each in report.recompiles
    ]
    headers = ["Variable", "Expected", "Actual", "Times", "Action", "Where", "Guard", "What helps"]
    return markup.table(FAILED, headers, rows, numeric={3})


def _step(each: Recompile) -> str:
    """What would let one compiled version serve both, where that is known."""
    return changes([each])[0].step if each.kind else ""


def _came(each: Recompile) -> str:
    """Say what was expected and what came, or what does not hold any more."""
    wanted, came = expected(each), actual(each)
    if not wanted:
        return f"`{clip(each.guard, 160)}` does not hold" if each.guard else "another one came"
    return f"expected {wanted}" + (f", got {came}" if came else "")


def _then(report: Report, each: Recompile) -> str:
    if not each.prevented:
        return "compiled again"
    why = "run never compiles" if report.mode == "run" else "torch's stance has it"
    return f"ran eagerly, as {why}"


def _groups(report: Report) -> dict[str, _Guards]:
    """Guards by variable; those that failed come first. A frame has each guard once."""
    groups: dict[str, dict[Guard, tuple[Guard, list[str]]]] = {}
    for guard in report.guards:
        same = groups.setdefault(guard.variable or _OTHER, {})
        key = dataclasses.replace(guard, frame="", line=None)
        same.setdefault(key, (guard, []))[1].append(guard.frame)
    failed = {each.variable for each in report.recompiles}
    # Guards on libraries and torch's own settings are many, and alike in every report: they come
    # after the user's.
    libraries = {g.variable for g in report.guards if g.source.startswith("G['__import_")}
    last = {_OTHER, "torch", *libraries}
    names = sorted(groups, key=lambda name: (name in last, name not in failed))
    return {name: list(groups[name].values()) for name in names}


def _total(guards: _Guards) -> int:
    """How many guards the rows stand for: each frame has its own."""
    return sum(len(frames) for _, frames in guards)


def _group(name: str, guards: _Guards) -> Markup:
    parts: list[object] = [_table(f"Guards on {name}", {name: guards[:_ROWS]}, named=False)]
    if len(guards) > _ROWS:
        parts.append(markup.quiet(f"{_total(guards[_ROWS:]):,} more guards."))
    return markup.titled(name, *parts, words=count(_total(guards), "guard"))


def _table(label: str, groups: Mapping[str, _Guards], *, named: bool) -> Markup:
    """Render guards as rows; ``named`` puts each variable's name before its first one."""
    rows = []
    for name, guards in groups.items():
        for index, (guard, frames) in enumerate(guards):
            row: list[object] = [
                prose(sentence(condition(guard))),
                code(clip(guard.source, 120)),
                element("span", guard.kind, title="\n".join(guard.code)),
                ", ".join(frames),
                unbroken(place(guard.line)),
            ]
            rows.append([element("b", "" if index else name), *row] if named else row)
    headers = ["Condition", "Expression", "Kind", "Frame", "Line"]
    return markup.table(label, ["Variable", *headers] if named else headers, rows)
