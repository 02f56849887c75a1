"""Lower precisions over the zoo: ``python -m benchmarks.precision --write docs/precision.md``.

Each model in a process of its own: the machine is measured, and then every backend in float32 and
behind a precision, ``auto`` with and without a bound, and what people run without us are compared
in one interleaved schedule.
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING

from benchmarks.markdown import cell, line
from benchmarks.part import Part
from benchmarks.plot import Plot, Point
from benchmarks.precision.run import BOUNDED, Case, Row
from benchmarks.zoo import MODELS
from dynamo_ext.widgets.comparison.number_text import amount, cosine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    good = [row for row in rows if not row.error]
    names = list(dict.fromkeys(case.name for row in good for case in row.cases))
    reasons = [
        f"- {row.model}, {case.name}: {case.outcome}: {cell(case.reason)}"
        for row in good
        for case in row.cases
        if case.reason
    ]
    return _PAGE.format(
        limits=_limits(good, [row for row in rows if row.error]),
        speed=_table(good, names, lambda case: f"{case.ratio:.2f}{_share(case)}", mean=True),
        errors=_table(good, names, lambda case: cosine(case.cosine)),
        reasons="\n".join(reasons),
        described=described,
    )


def _share(case: Case) -> str:
    return f" ({case.share:.0%})" if case.share else ""


def _limits(rows: Sequence[Row], failed: Sequence[Row]) -> str:
    precisions = list(dict.fromkeys(name for row in rows for name, _ in row.limits))
    lines = [
        f"| model | eager, ms | products | limit, ms: {' | '.join(precisions)} |",
        f"|---|--:|--:|{'--:|' * len(precisions)}",
    ]
    for row in rows:
        known = dict(row.limits)
        limits = [f"{known[name] * 1e3:.2f}" if name in known else "" for name in precisions]
        asked = amount(row.operations, "FLOP")
        lines.append(line([row.model, f"{row.eager_seconds * 1e3:.2f}", asked, *limits]))
    return "\n".join([*lines, *(line([row.model, row.error]) for row in failed)])


def _table(
    rows: Sequence[Row], names: Sequence[str], told: Callable[[Case], str], *, mean: bool = False
) -> str:
    lines = [f"| model | {' | '.join(names)} |", f"|---|{'--:|' * len(names)}"]
    for row in rows:
        cases = {case.name: case for case in row.cases}
        lines.append(line([row.model, *(_said(cases.get(name), told) for name in names)]))
    if mean and rows:
        means = [f"**{_mean(rows, name):.2f}**" for name in names]
        lines.append(line(["**geometric mean**", *means]))
    return "\n".join(lines)


def _said(case: Case | None, told: Callable[[Case], str]) -> str:
    if case is None:
        return ""
    return told(case) if case.ratio else case.outcome


def _mean(rows: Sequence[Row], name: str) -> float:
    """Of a backend that was not measured on a model, eager's 1."""
    found = [case.ratio or 1.0 for row in rows for case in row.cases if case.name == name]
    return statistics.geometric_mean(found)


def drawn(rows: Sequence[Row]) -> Plot:
    """The page's plot: ``auto`` with a bound first."""
    return Plot(
        "speedup over eager in float32",
        [
            Point(case.name, row.model, case.ratio, case.low, case.high)
            for row in rows
            for case in sorted(row.cases, key=lambda case: case.name != BOUNDED)
            if case.ratio
        ],
    )


_PAGE = """# Lower precisions

What lower precisions gain differs by processor, which the last line names: without instructions for
bfloat16 or int8 they gain little or nothing.

Each model runs in a process of its own. Every backend in float32 and behind a precision, `auto`
without a bound and with `cosine>=0.9999`, and what people run without us are compared in one
interleaved schedule (`python -m benchmarks.precision`). A row whose results miss the bound of its
precision is called `wrong`; one that ran in eager is called `eager`.

## The machine's limit
The fewest milliseconds that a run can take, by the operations of its products and the bytes that
must move, at the rates that `%dynamo machine` measured in the same process.

{limits}

## Speedups over eager in float32, and shares of the limit
Medians of ratios within a round. In brackets the share of the limit in the row's own precision;
peers have none. The mean counts what was not measured as 1.

{speed}

## Cosine to float64
Of rows in float32 and of peers, to eager.

{errors}

{reasons}

{described}
"""


PART = Part(
    "precision",
    "Lower precisions over the model zoo.",
    [name for name, model in MODELS.items() if not model.learns],
    Row,
    document,
    lambda row: ", ".join(f"{case.name} {case.ratio:.2f}" for case in row.cases),
    budget=30.0,
    timeout=900.0,
    plot=drawn,
)

if __name__ == "__main__":
    sys.exit(PART.measure(PART.parser().parse_args()))
