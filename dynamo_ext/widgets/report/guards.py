"""Guards in words, by variable; those that failed come first, with expected and actual."""

from collections.abc import Mapping, Sequence

from dynamo_ext.analysis.advice import as_written_for
from dynamo_ext.analysis.guards import Alike, actual, condition, expected, grouped, total
from dynamo_ext.analysis.recompiles import changes
from dynamo_ext.formatting import clip, count, function_name, place, sentence
from dynamo_ext.records.capture import Recompile
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, code, element, prose

TITLE = "Guards"
FAILED = "Guards that failed"
NOTHING = "No guard was recorded: nothing was compiled or reused in this run."
_STRUCTURAL = "hold as long as no module and no library is changed"
_FEW = 4  # owners with at most this many guards share one table
_OWNERS = 12  # folds that are shown at once
_TEXT_ROWS = 6


def html(report: Report, most: int | None = markup.MOST) -> Markup:
    """Failures as a table, then every module or variable with its guards."""
    parts = markup.join([failures(report, most), listed(grouped(report), most)])
    return element("div", parts) if parts else EMPTY


def failures(report: Report, most: int | None = None) -> Markup:
    """How many guards there are, and those that failed."""
    parts: list[object] = []
    if words := _number(report):
        parts.append(element("p", words))
    if report.recompiles:
        parts += [element("h4", FAILED), _failures(report.recompiles[:most], report)]
        parts.append(markup.left_out(len(report.recompiles), most, "failed guard"))
    if report.recompiles and report.guards:
        parts.append(element("h4", "All guards"))
    return markup.join(parts)


def listed(
    groups: Mapping[str, Sequence[Alike]], most: int | None, *, opened: bool = False
) -> Markup:
    """Render guards by owner; those that only watch structure come last, folded together."""
    telling = {name: [g for g in of if not g.is_structural] for name, of in groups.items()}
    structural = [(name, [g for g in of if g.is_structural]) for name, of in groups.items()]
    many = [(name, of) for name, of in telling.items() if total(of) > _FEW]
    fits = most is None or sum(map(len, groups.values())) <= most
    share = None if fits or most is None else max(most // (len(many) + 1), 1)
    few = [(name, of) for name, of in telling.items() if 0 < total(of) <= _FEW]
    parts: list[object] = [_table("Guards by owner", few, most)] if few else []
    folds = [
        markup.titled(
            name,
            _table(f"Guards on {name}", [("", of)], share),
            words=count(total(of), "guard"),
            opened=opened,
        )
        for name, of in many[:most]
    ]
    parts += folds[:_OWNERS]
    if rest := folds[_OWNERS:]:
        held = total(g for _, of in many[_OWNERS:most] for g in of)
        lead = f"{len(rest):,} more with {count(held, 'guard')}"
        parts.append(markup.details(lead, *rest, opened=opened))
    left = total(g for _, of in many[len(folds) :] for g in of)
    parts.append(markup.left_out(left, 0, "guard"))
    if held := total(g for _, of in structural for g in of):
        table = _table("Guards on structure", structural, share)
        lead = f"{count(held, 'guard')} {_STRUCTURAL}"
        parts.append(markup.details(lead, table, opened=opened))
    return markup.join(parts)


def text(report: Report) -> str:
    """Render the same for a terminal, the first guards of each variable only."""
    parts = [plain_text.paragraph(words)] if (words := _number(report)) else []
    if report.recompiles:
        parts.append(f"{FAILED}:\n{failures_text(report)}")
    structural = 0
    for name, found in grouped(report).items():
        guards = [each for each in found if not each.is_structural]
        structural += total(found) - total(guards)
        if not guards:
            continue
        lines = [f"{name}: {count(total(guards), 'guard')}"]
        for each in guards[:_TEXT_ROWS]:
            on = f" ({', '.join(each.frames)})" if len(each.frames) > 1 else ""
            lines.append(plain_text.paragraph(f"{condition(each.first)}{on}", "    ", "  · "))
        if len(guards) > _TEXT_ROWS:
            lines.append(f"  … {total(guards[_TEXT_ROWS:]):,} more")
        parts.append("\n".join(lines))
    if structural:
        parts.append(f"{count(structural, 'guard')} {_STRUCTURAL}.")
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
        if step := _step(report, each):
            lines.append(plain_text.step(step))
    return "\n".join(lines)


def _number(report: Report) -> str:
    frames = [f for f in report.frames if f.guards]
    if not frames:
        return ""
    number = count(sum(f.guards for f in frames), "guard")
    return f"{number} on {count(len(frames), 'function')}."


def _failures(failed: Sequence[Recompile], report: Report) -> Markup:
    rows = [
        [
            markup.join([element("b", each.variable or "—"), markup.BREAK, markup.quiet_words(of)]),
            f"{each.count:,}",
            prose(f"{_came(each)}; {_then(report, each)}."),
            prose(_step(report, each)),
            code(clip(each.guard, 200)),
        ]
        for each in failed
        for of in [" · ".join(filter(None, [function_name(each.function), place(each.line)]))]
    ]
    headers = ["Variable", "Times", "What came", "What helps", "Guard"]
    return markup.table(FAILED, headers, rows, numeric={1}, class_="dx-breaks")


def _step(report: Report, recompile: Recompile) -> str:
    """What would let one compiled version serve both, where that is known."""
    return as_written_for(changes([recompile])[0].step, report) if recompile.kind else ""


def _came(recompile: Recompile) -> str:
    """Say what was expected and what came, or what does not hold any more."""
    wanted, came = clip(expected(recompile), 200), clip(actual(recompile), 200)
    if not wanted:
        guard = clip(recompile.guard, 160)
        return f"`{guard}` does not hold" if guard else "another one came"
    return f"expected {wanted}" + (f", got {came}" if came else "")


def _then(report: Report, recompile: Recompile) -> str:
    if not recompile.prevented:
        return "compiled again"
    why = "run never compiles" if report.mode == "run" else "torch's stance has it"
    return f"ran eagerly, as {why}"


def _table(label: str, groups: Sequence[tuple[str, Sequence[Alike]]], most: int | None) -> Markup:
    """Render guards as rows, with each owner's name before its first one."""
    named = any(name for name, _ in groups)
    found = [("" if i else name, each) for name, of in groups for i, each in enumerate(of)]
    rows = []
    for name, each in found[:most]:
        guard = each.first
        row: list[object] = [
            prose(sentence(condition(guard))),
            f"{len(each.members):,}",
            code(clip(guard.source, 120)),
            element("span", guard.kind, title="\n".join(guard.code)),
            clip(", ".join(each.frames), 40),
            markup.unbroken(place(guard.line)),
        ]
        rows.append([element("b", name), *row] if named else row)
    headers = ["Condition", "Guards", "Expression", "Kind", "Frame", "Line"]
    headers = ["Owner", *headers] if named else headers
    numeric = {headers.index("Guards")}
    table = markup.table(label, headers, rows, numeric=numeric, class_="dx-guards")
    left = total(each for _, each in found[len(rows) :])
    return markup.join([table, markup.left_out(left, 0, "guard")])
