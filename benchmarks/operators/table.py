"""The operator table as Markdown: one row an operator, one column an engine."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from benchmarks.markdown import cell, table
from benchmarks.operators.edges import PREFIX
from benchmarks.operators.known import accepted
from benchmarks.operators.row import FAULTS, Row, Verdict
from dynamo_ext.formatting import clip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MARKS: dict[Verdict, str] = {
    "right": "●",
    "partly": "◐",
    "failed": "△",
    "eager": "○",
    "uncaptured": "–",
    "unsampled": "–",
    "wrong": "✗",
    "crash": "☠",
    "timeout": "⧗",
}

_WORST: tuple[Verdict, ...] = ("crash", "timeout", "wrong", "failed")
"""One such sample marks the whole cell."""

_WORDS: dict[Verdict, str] = {
    "right": "whole",
    "partly": "in part",
    "eager": "eager",
    "failed": "failed",
    "uncaptured": "never asked",
    "wrong": "wrong",
    "crash": "crash",
    "timeout": "timeout",
}

_LEGEND = """\
Each cell has a mark for each dtype, in the order float32, int64, bool:

- ● every sample's operations ran in the engine, and the results are eager's
- ◐ some ran in the engine and some in eager (within a sample, or some samples' all), results right
- ○ eager: the engine's `supports` refused, with a reason
- △ the engine took it and raised when lowering or running; the result is eager's and the \
fallback is recorded
- – the engine was never asked: torch captures no graph of the operator (the shape of its result \
depends on the data, or it is no ATen operator), or nothing is left to compute
- ✗ a wrong result; ☠ the process died; ⧗ no result in time
- · torch has no samples of that dtype
"""

_METHOD = """\
This page is written by `make sweep`. It takes torch's own samples of its operators \
(`torch.testing._internal.common_methods_invocations.op_db`; at most {samples} for each operator \
and dtype, evenly spaced over those there are) and {edges} small functions about values of which \
those have too few: NaN, infinities, signed zeros, integer overflow, negative indices, empty \
tensors, odd strides, inputs changed in place. Each goes through the pipeline as a graph of its \
own, with the check of first calls off (`verify=false`), so that a mistake of an engine shows, \
and with `min_partition=1`, so that an engine gets every operation it claims. It is called \
{calls} times. Results must have eager's dtype, shape and layout, and its values: integers and \
booleans exactly, float32 within 1e-5 + 1e-4 of the element + 1e-5 of the largest element, NaN \
and infinities in the same places; inputs must be as eager leaves them; results must share no \
memory that eager's do not; and later calls must not change earlier results.

What it does not show: training graphs, other dtypes, frozen weights, symbolic shapes, \
operations in combination (fusions go wrong in other ways than operators), non-default options, \
strides of results, speed. A mark speaks of the samples, not of all data. Random operators stay \
in eager by design, and of uninitialised ones (`empty`, `resize_`) the values are not compared.
"""


def page(  # noqa: PLR0913 - what the page says, by keyword
    rows: Sequence[Row],
    *,
    versions: Mapping[str, str],
    skipped: Mapping[str, str],
    torch_version: str,
    samples: int,
    calls: int,
) -> str:
    """The whole page.

    Parameters
    ----------
    rows
        All rows, of all engines.
    versions
        Each engine that ran to its version, in the order of the columns.
    skipped
        Engines that did not run, and why.
    torch_version
        For the head of the page.
    samples, calls
        What the sweep was told, for the description.
    """
    operators = [row for row in rows if not row.operator.startswith(PREFIX)]
    edges = [row for row in rows if row.operator.startswith(PREFIX)]
    edge_count = len({row.operator for row in edges})
    parts = [
        "# Operators\n",
        _METHOD.format(samples=samples, calls=calls, edges=edge_count),
        "## Summary\n",
        f"torch {torch_version}. Samples, and operators by their worst sample.\n",
        _summary(rows, versions),
    ]
    parts += _gaps(rows, versions)
    if skipped:
        parts.append("\n".join(f"- `{name}` did not run: {why}" for name, why in skipped.items()))
        parts.append("")
    parts += _faults(rows)
    parts += ["## Operators by engine\n", _LEGEND, _table(operators, list(versions))]
    if edges:
        parts += ["## Edge values\n", _table(edges, list(versions))]
    parts += ["## Why eager\n", _reasons(rows, list(versions))]
    return "\n".join(parts).rstrip() + "\n"


def _summary(rows: Iterable[Row], versions: Mapping[str, str]) -> str:
    rows = list(rows)
    lines = []
    for engine, version in versions.items():
        mine = [row for row in rows if row.engine == engine and row.verdict != "unsampled"]
        by_operator: dict[str, list[Row]] = {}
        for row in mine:
            by_operator.setdefault(row.operator, []).append(row)
        samples = Counter(row.verdict for row in mine)
        operators = Counter(overall(group) for group in by_operator.values())
        for name, counts in (("samples", samples), ("operators", operators)):
            numbers = [counts[verdict] for verdict in _WORDS]
            lines.append([f"`{engine}`", version, name, counts.total(), *numbers])
    numbered = " | ".join(f"{word}:" for word in ("all", *_WORDS.values()))
    return table(f"engine | version | counted | {numbered}", lines) + "\n"


def overall(rows: Sequence[Row]) -> Verdict:
    """One verdict for several samples: the worst fault, or how far the engine takes them."""
    found = {row.verdict for row in rows}
    for verdict in _WORST:
        if verdict in found:
            return verdict
    found -= {"uncaptured", "unsampled"}
    if not found:
        return "uncaptured"
    return found.pop() if len(found) == 1 else "partly"


def _gaps(rows: Iterable[Row], engines: Iterable[str]) -> list[str]:
    """What an interrupted sweep did not come to, which must not pass for a lack of samples."""
    keys: dict[str, set[str]] = {engine: set() for engine in engines}
    for row in rows:
        keys[row.engine].add(row.key)
    total = len(set().union(*keys.values()))
    lines = [
        f"- `{engine}`: the sweep was interrupted after {len(found)} of {total} samples; "
        "for the rest, · means that they were not run"
        for engine, found in keys.items()
        if len(found) < total
    ]
    return [*lines, ""] if lines else []


def _faults(rows: Iterable[Row]) -> list[str]:
    wrong = sorted((row for row in rows if row.verdict in FAULTS), key=lambda r: (r.engine, r.key))
    faults = [row for row in wrong if row.fault]
    others = [row for row in wrong if not row.fault]
    found = table(
        "engine | operator | dtype | sample | fault | what",
        [[*_where(row), row.verdict, _safe(_what(row))] for row in faults],
        "None: no wrong result that is not listed below, no crash, no timeout.",
    )
    lines = ["## Faults\n", found]
    if others:
        accepted = table(
            "engine | operator | dtype | sample | what | why",
            [[*_where(row), _safe(_what(row)), _why(row)] for row in others],
        )
        lines += ["", "## Accepted differences\n", _ACCEPTED, accepted]
    return [*lines, ""]


_ACCEPTED = """\
They count as wrong in the summary and are marked ✗ below. The check of a first call, which users \
have on and the sweep has off, sees them where the first call has such values.
"""


def _where(row: Row) -> list[str]:
    return [f"`{row.engine}`", f"`{row.operator}`", row.dtype, str(row.sample)]


def _what(row: Row) -> str:
    return f"{row.reason} ({row.blame})" if row.blame else row.reason


def _why(row: Row) -> str:
    ours = accepted(row.engine, row.operator)
    return ours or "torch's own `aot_eager` differs from eager here, too."


def _table(rows: Sequence[Row], engines: Sequence[str]) -> str:
    cells: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row.operator, row.engine, row.dtype), []).append(row)
    lines = []
    for operator in sorted({row.operator for row in rows}):
        shown = operator.removeprefix(PREFIX)
        found = [
            "".join(_mark(cells.get((operator, engine, dtype))) for dtype in _ORDER)
            for engine in engines
        ]
        lines.append([shown if shown != operator else f"`{operator}`", *found])
    return table(" | ".join(["operator", *engines]), lines) + "\n"


_ORDER = ("float32", "int64", "bool")


def _mark(rows: Sequence[Row] | None) -> str:
    return MARKS[overall(rows)] if rows else "·"


def _reasons(rows: Iterable[Row], engines: Sequence[str]) -> str:
    """The commonest reasons of each engine, so that the table's ○ can be understood."""
    rows = list(rows)
    lines = []
    for engine in engines:
        counts = Counter(
            reason
            for row in rows
            if row.engine == engine and row.verdict in ("eager", "partly")
            for reason in {part.partition(": ")[2] for part in row.reason.split("; ")}
            if reason
        )
        lines += [[f"`{engine}`", n, _safe(reason)] for reason, n in counts.most_common(12)]
    return table("engine | samples: | reason", lines) + "\n"


def _safe(text: str) -> str:
    return clip(cell(text), 160)
