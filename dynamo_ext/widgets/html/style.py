"""The style sheets and the script of a page, which are files in ``assets``."""

from __future__ import annotations

import re
from pathlib import Path

from dynamo_ext.widgets.graph_drawing.layout import BOX_HEIGHT, BOX_WIDTH
from dynamo_ext.widgets.html.markup import Markup

HUES = 6


def asset(name: str) -> Markup:
    """The text of a style sheet or script without its comments, as markup."""
    text = (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")
    return Markup(re.sub(r"/\*.*?\*/\s*", "", text, flags=re.DOTALL))


def hue(index: int) -> str:
    """Name the class that tints the ``index``-th graph or engine."""
    return f"dx-h{index % HUES}"


_SHEET = asset("report.css").replace("BOX_WIDTH", str(BOX_WIDTH))
STYLE = Markup("<style>{}</style>").format(_SHEET.replace("BOX_HEIGHT", str(BOX_HEIGHT)))
