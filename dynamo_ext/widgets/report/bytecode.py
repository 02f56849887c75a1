"""Each frame's bytecode as Python compiled it, beside what Dynamo made of it."""

from dynamo_ext.formatting import count, function_name, printable
from dynamo_ext.records.capture import Bytecode
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, element

TITLE = "Bytecode"
NOTHING = "No bytecode was recorded: Dynamo rewrote no function in this run."
_STATIC_LINES = 80


def html(report: Report, most: int | None = _STATIC_LINES) -> Markup:
    """Render a folded pair of listings a frame, each cut to ``most`` lines (``None``: whole).

    A quarter as many functions are shown as lines of each.
    """
    if not report.bytecode:
        return EMPTY
    functions = None if most is None else max(most // 4, 1)
    frames = [_frame(report, each, most) for each in report.bytecode[:functions]]
    return element("div", *frames, markup.left_out(len(report.bytecode), functions, "function"))


def text(report: Report) -> str:
    """One line a frame: the listings themselves are too wide for a terminal."""
    return "\n".join(_title(report, each) for each in report.bytecode)


def _title(report: Report, bytecode: Bytecode) -> str:
    name = next((function_name(f.name) for f in report.frames if f.id == bytecode.frame), "")
    before, after = (
        sum(bool(line.strip()) for line in listing.splitlines())
        for listing in (bytecode.before, bytecode.after)
    )
    whose = " ".join(filter(None, [name, bytecode.frame]))
    return f"{whose}: {count(before, 'line')} before, {after:,} after"


def _frame(report: Report, bytecode: Bytecode, limit: int | None) -> Markup:
    listings = [
        markup.listing(printable(code).expandtabs(4), limit, "more lines")
        for code in (bytecode.before, bytecode.after)
    ]
    table = markup.table(
        f"Bytecode of {bytecode.frame}",
        ["Before: as Python compiled it", "After: as Dynamo rewrote it"],
        [listings],
        class_="dx-bytes",
    )
    return markup.details(_title(report, bytecode), table)
