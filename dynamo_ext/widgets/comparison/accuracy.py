"""How far each candidate's results are from each reference's."""

from collections.abc import Sequence

from dynamo_ext.formatting import clip, printable, sentence
from dynamo_ext.records.comparison import Accuracy, CandidateResult
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.comparison.number_text import cosine, decibels, error, share
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, element, unbroken

TITLE = "Accuracy"
NOTHING = "No result was compared."
HEADERS = (
    "Candidate", "Reference", "Verdict", "Max abs. error", "Max rel. error", "Cosine", "SQNR",
    "Top 1", "Dtype", "Results", "What disagrees",
)  # fmt: skip
_NUMERIC = {3, 4, 5, 6, 7, 9}
_DETAIL = 300
# Against eager at full precision a lower one differs on purpose: that row is a distance alone.
_UNJUDGED = "eager float32"


def html(rows: Sequence[CandidateResult]) -> Markup:
    """One row for each candidate and reference; empty where nothing was compared."""
    cells = _cells(rows)
    if not cells:
        return EMPTY
    note = (
        "Within: eager's tolerance for the dtype. What is beyond it is judged by float64: as near "
        "to that as eager itself, at most twice as far (in half precision three times), is right. "
        "Relative errors: to the largest element of a result."
    )
    # A row of auto has the precisions that it chose, and the bound of whatever it might.
    named = [row for row in rows if not (row.report and any(g.contest for g in row.report.graphs))]
    bounds = {r.precision: a.bound for r in named for a in r.accuracy if a.bound is not None}
    if bounds:
        listed = ", ".join(f"{bound:g} in {name}" for name, bound in bounds.items())
        note += (
            f" Of a lower precision, the root mean square error may be {listed}; of gradients, "
            "twice that."
        )
    headers = list(HEADERS)
    if not any(row[-1] for row in cells):
        headers, cells = headers[:-1], [row[:-1] for row in cells]
    kept = [[*map(unbroken, row[:8]), *row[8:]] for row in cells]
    table = markup.table(TITLE, headers, kept, numeric=_NUMERIC)
    return element("div", table, markup.quiet(note))


def text(rows: Sequence[CandidateResult]) -> str:
    """Render the same for a terminal, without what the width does not hold."""
    cells = [[*row[:7], row[10]] for row in _cells(rows)]
    headers = [*HEADERS[:3], "Abs", "Rel", "Cosine", "SQNR", "What disagrees"]
    if not any(row[-1] for row in cells):
        headers, cells = headers[:-1], [row[:-1] for row in cells]
    return plain_text.table(headers, cells, numeric={3, 4, 5, 6}) if cells else ""


def _cells(rows: Sequence[CandidateResult]) -> list[list[str]]:
    return [
        [
            printable(each.name),
            found.reference,
            _verdict(each, found),
            error(found.max_abs),
            error(found.max_rel),
            cosine(found.cosine),
            decibels(found.sqnr),
            share(found.top1),
            found.dtype,
            f"{found.outputs:,}",
            sentence(clip(printable(found.detail), _DETAIL)),
        ]
        for each in rows
        for found in each.accuracy
    ]


def _verdict(candidate: CandidateResult, accuracy: Accuracy) -> str:
    if accuracy.reference == _UNJUDGED:
        return "– distance only"
    if accuracy.within:
        return "✓ within"
    return "✗ off" if candidate.outcome == "wrong" else "– see float64"
