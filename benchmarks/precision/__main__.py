"""Lower precisions over the zoo: ``python -m benchmarks.precision --write docs/precision.md``.

Each model in a process of its own: the machine is measured, and then every backend in float32 and
behind a precision, ``auto`` with and without a bound, and what people run without us are compared
in one interleaved schedule.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks import workers
from benchmarks.markdown import cell, table
from benchmarks.part import Part
from benchmarks.plot import Plot, Point
from benchmarks.precision.run import BOUNDED, MEASURED, PEERS, Case, Row, measure
from benchmarks.zoo import classic, images, text
from dynamo_ext.widgets.comparison.number_text import amount, cosine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    good = [row for row in rows if not row.error]
    runs = [row for row in good if not _learns(row)]
    reasons = [
        f"- {row.model}, {case.name}: {case.outcome}: `{cell(case.reason)}`"
        for row in good
        for case in row.cases
        if case.reason
    ]
    return _PAGE.format(
        limits=_limits(good, [row for row in rows if row.error]),
        reached=_reached(runs),
        speed=_table(runs, lambda case: f"{case.ratio:.2f}{_share(case)}", mean=True),
        products=_products(runs),
        steps=_table([row for row in good if _learns(row)], lambda case: f"{case.ratio:.2f}"),
        errors=_table(good, lambda case: cosine(case.cosine)),
        reasons="\n".join(reasons),
        described=described,
    )


def _learns(row: Row) -> bool:
    return MEASURED[row.model].learns


_VIEWED_IN_PATCHES = {"ViT", "DeiT", "Swin", "SegFormer", "CLIP"}
_FAMILIES = {
    "transformers": _VIEWED_IN_PATCHES | {model.name for model in text.MODELS} - {"Mamba"},
    "convolutional networks": {model.name for model in (*classic.MODELS, *images.MODELS)}
    - _VIEWED_IN_PATCHES,
}
"""The models of each family: the page has a mean for each."""


_REACHED = (
    "model | best at cosine >= 0.9999: | `auto`, of it: | best at >= 0.999: "
    "| bf16, of the best peer: | int8, of the best peer:"
)


def _reached(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        best = _best(_ours(row, 0.9999))
        raced = [case for case in row.cases if case.name == BOUNDED]
        chosen = (raced[0].ratio or 1.0) if raced else None
        lines.append(
            [
                row.model,
                f"{best.name} {best.ratio:.2f}",
                "" if chosen is None else f"{chosen:.2f}, {chosen / best.ratio:.0%}",
                "{0.name} {0.ratio:.2f}".format(_best(_ours(row, 0.999))),
                _of_peer(row, "bf16"),
                _of_peer(row, "int8"),
            ]
        )
    for family, names in _FAMILIES.items():
        own = [row for row in rows if row.model in names]
        if own:
            strict, loose = (
                statistics.geometric_mean(_best(_ours(row, least)).ratio for row in own)
                for least in (0.9999, 0.999)
            )
            chosen = _mean(own, BOUNDED)
            means = [f"**{strict:.2f}**", f"**{chosen:.2f}**", f"**{loose:.2f}**", "", ""]
            lines.append([f"**geometric mean of {len(own)} {family}**", *means])
    return table(_REACHED, lines)


_EAGER = Case("eager", "measured", ratio=1.0)


def _ours(row: Row, least: float) -> list[Case]:
    return [
        case
        for case in row.cases
        if case.ratio and case.cosine >= least and not (case.name in PEERS or "auto" in case.name)
    ]


def _best(cases: Sequence[Case]) -> Case:
    return max([_EAGER, *cases], key=lambda case: case.ratio)


def _of_peer(row: Row, precision: str) -> str:
    here = [case for case in row.cases if case.ratio and case.precision == precision]
    peer = _best([case for case in here if case.name in PEERS])
    ours = _best([case for case in here if case.name not in PEERS])
    if peer is _EAGER and ours is _EAGER:
        return ""
    return f"{ours.ratio / peer.ratio:.0%} ({peer.name} {peer.ratio:.2f})"


def _products(rows: Sequence[Row]) -> str:
    names = [n for n in _known(rows) if ":" in n]
    if not names:
        return ""
    return _table(rows, _ran, names=names)


def _ran(case: Case) -> str:
    products = "" if case.lowered is None else f"{case.lowered:.0%}"
    return products if case.time_share is None else f"{products or '?'} / {case.time_share:.0%}"


def _known(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(case.name for row in rows for case in row.cases))


def _share(case: Case) -> str:
    return f" ({case.share:.0%})" if case.share else ""


def _limits(rows: Sequence[Row], failed: Sequence[Row]) -> str:
    precisions = list(dict.fromkeys(name for row in rows for name, _ in row.limits))
    columns = "".join(f" | {name}:" for name in precisions[1:])
    lines = []
    for row in rows:
        known = dict(row.limits)
        limits = [f"{known[name] * 1e3:.2f}" if name in known else "" for name in precisions]
        asked = amount(row.operations, "FLOP")
        lines.append([row.model, f"{row.eager_seconds * 1e3:.2f}", asked, *limits])
    lines += [[row.model, row.error] for row in failed]
    first = precisions[0] if precisions else ""
    return table(f"model | eager, ms: | products: | limit, ms: {first}:{columns}", lines)


def _table(
    rows: Sequence[Row],
    told: Callable[[Case], str],
    *,
    names: Sequence[str] = (),
    mean: bool = False,
) -> str:
    names = names or _known(rows)
    lines = []
    for row in rows:
        cases = {case.name: case for case in row.cases}
        lines.append([row.model, *(_said(cases.get(name), told) for name in names)])
    if mean and rows:
        means = [f"**{_mean(rows, name):.2f}**" for name in names]
        lines.append(["**geometric mean**", *means])
    return table(" | ".join(["model", *(f"{name}:" for name in names)]), lines)


def _said(case: Case | None, told: Callable[[Case], str]) -> str:
    if case is None:
        return ""
    return told(case) if case.ratio else case.outcome


def _mean(rows: Sequence[Row], name: str) -> float:
    """Of a backend that was not measured on a model, eager's 1."""
    found = [case.ratio or 1.0 for row in rows for case in row.cases if case.name == name]
    return statistics.geometric_mean(found or [1.0])


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
without a bound and with `cosine>=0.9999`, and what people run without us (torchao where it is
installed) are compared in one interleaved schedule (`python -m benchmarks.precision`). A row whose
results miss the bound of its precision is called `wrong`; one that ran in eager is called `eager`.
Where a model takes nothing but images, int8 is calibrated on them and on four batches of others.

## The machine's limit
The fewest milliseconds that a run can take, by the operations of its products and the bytes that
must move, at the rates that `%dynamo machine` measured in the same process: of torch's own products
and, in float32, oneDNN's, the faster.
Rows that have no share of time below are older. Their limits in float32 are of torch's own products
alone, of half the speed on newer AMD processors, and some engines exceed them.

{limits}

## What was reached
The best backend by itself whose results are that near to float64 (in float32, to eager), and what
`auto` with the bound comes to; the best backend in a precision beside the best peer in it. Eager
counts as 1.

{reached}

## Speedups over eager in float32, and shares of the limit
Medians of ratios within a round. In brackets the share of the limit in the row's own precision;
peers have none. The mean counts what was not measured as 1.

{speed}

## How much ran in the precision
The share of the operations of eager's products; behind the stroke, in newer rows, the share of a
call's time in operators that compute in the precision, as the engine's own profile has it. The rest
are casts, normalisation, softmax and other operators in float32, and what Dynamo does before a
graph runs.

{products}

## Training steps in bf16
Forward, backward and plain gradient descent, over the same step in float32.

{steps}

## Cosine to float64
Of rows in float32 and of peers, to eager.

{errors}

{reasons}

{described}
"""


PART = Part(
    "precision",
    "Lower precisions over the model zoo.",
    list(MEASURED),
    Row,
    document,
    lambda row: ", ".join(f"{case.name} {case.ratio:.2f}" for case in row.cases),
    measure,
    budget=30.0,
    timeout=900.0,
    plot=drawn,
)

if __name__ == "__main__":
    workers.command(PART.run)
