"""Two runs side by side, and what came and went between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.widgets import markup, plain
from dynamo_ext.widgets.markup import Html, element, prose
from dynamo_ext.widgets.style import STYLE
from dynamo_ext.wording import clip, printable, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamo_ext.difference import Changed, Difference, Figure

_MOST = 20
_LONGEST = 200
_HEADERS = ("", "Before", "After", "Change")


class DifferenceView:
    """A difference as a notebook and as a terminal show it.

    Parameters
    ----------
    found
        What to show.
    """

    def __init__(self, found: Difference) -> None:
        self.found = found

    def html(self) -> Html:
        """A table of the figures, then what is gone and what is new, by kind."""
        found = self.found
        lead = element("p", element("b", found.before), " → ", element("b", found.after))
        rows = [_row(figure) for figure in found.figures]
        table = markup.table("Two runs", _HEADERS, rows, numeric={1, 2, 3})
        other = element("p", _OTHER_CODE, class_="dx-quiet") if found.code_changed else ""
        parts: list[object] = [STYLE, lead, other, table]
        parts += [_fold(each) for each in found.changed]
        if not found.changed:
            parts.append(element("p", _SAME))
        if found.backend_changed:
            parts.append(element("p", _OTHER, class_="dx-quiet"))
        return element("div", *parts, class_="dx")

    def text(self) -> str:
        """The same for a terminal."""
        found = self.found
        rows = [_row(figure) for figure in found.figures]
        parts = [
            plain.paragraph(f"{found.before} → {found.after}"),
            *([plain.paragraph(_OTHER_CODE)] if found.code_changed else []),
            plain.table(list(_HEADERS), rows),
        ]
        for each in found.changed:
            lines = [f"{each.kind}:"]
            lines += [plain.paragraph(line, "      ", "  ") for line in _lines(each)]
            parts.append("\n".join(lines))
        if not found.changed:
            parts.append(_SAME)
        if found.backend_changed:
            parts.append(plain.paragraph(_OTHER))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        return str(self.html())

    def __repr__(self) -> str:
        return self.text()


_SAME = "Graphs, breaks, guards, recompiles and fallbacks are the same."
_OTHER_CODE = "The cells' texts differ. %dynamo diff 5 7 compares two runs of your choice."
_OTHER = "The backends differ, so the seconds tell of them as well as of the code."


def _row(figure: Figure) -> list[str]:
    if figure.seconds:
        shown = [seconds(figure.before), seconds(figure.after)]
        both = figure.before > 0 and figure.after > 0
        change = f"× {figure.after / figure.before:.2f}" if both else ""
        return [figure.name, *shown, change]
    gain = int(figure.after - figure.before)
    return [
        figure.name,
        f"{figure.before:,.0f}",
        f"{figure.after:,.0f}",
        f"{gain:+,}" if gain else "=",
    ]


def _lines(each: Changed) -> Iterator[str]:
    for sign, items in (("−", each.gone), ("+", each.new)):
        for words, count in items[:_MOST]:
            times = f" ({count:,} times)" if count > 1 else ""
            yield f"{sign} {clip(printable(words), _LONGEST)}{times}"
        if len(items) > _MOST:
            yield f"{sign} {len(items) - _MOST:,} more"


def _fold(each: Changed) -> Html:
    gone, new = (sum(times for _, times in items) for items in (each.gone, each.new))
    title = f"{each.kind}: {gone:,} gone, {new:,} new"
    items = [element("li", prose(line)) for line in _lines(each)]
    return markup.details(element("b", title), element("ul", *items), opened=True)
