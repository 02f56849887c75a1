"""TVM by rule, and tuned: ``python -m benchmarks.tvm_tuning --write docs/tvm-tuning.md``.

Each model in a process of its own: it is tuned twice, from nothing known, and what came of it is
compared with eager and with the schedules by rule in one interleaved schedule.
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING

from benchmarks.interval import told
from benchmarks.part import Part
from benchmarks.plot import Plot, Point
from benchmarks.tvm_tuning.run import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.tvm_tuning.run import Search, Speed

MODELS = ("MLP", "SqueezeNet", "ResNet-18", "LSTM cells", "T5 encoder", "Llama block")
"""What differs most to TVM: products, convolutions, many small functions, attention."""

TRIALS = (64, 512)


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    good = [row for row in rows if not row.error]
    heads = [f"{most} trials | measured | seconds" for most in TRIALS]
    lines = [
        (
            f"| model | eager, ms | by rule | {' | '.join(heads)} "
            "| start by rule, s | start known, s |"
        ),
        f"|---|--:|--:|{'--:|' * (3 * len(TRIALS) + 2)}",
    ]
    lines += [_line(row) for row in good]
    if good:
        lines.append(_means(good))
    lines += [f"| {row.model} | {row.error} |" for row in rows if row.error]
    return _PAGE.format(rows="\n".join(lines), described=described)


def _line(row: Row) -> str:
    cells = [row.model, f"{row.eager_seconds * 1e3:.2f}", _shown(row.rule)]
    for search in row.searches:
        cells += [_shown(search.speed), _measured(search), f"{search.seconds:.0f}"]
    cells += [f"{row.rule_start:.1f}", f"{row.known_start:.1f}"]
    return f"| {' | '.join(cells)} |"


def _measured(search: Search) -> str:
    return f"{search.measured} of {search.functions} functions"


def _means(rows: Sequence[Row]) -> str:
    cells = ["**geometric mean**", "", _mean([row.rule for row in rows])]
    for position in range(len(TRIALS)):
        cells += [_mean([row.searches[position].speed for row in rows]), "", ""]
    return f"| {' | '.join([*cells, '', ''])} |"


def _mean(speeds: Sequence[Speed | None]) -> str:
    found = statistics.geometric_mean(speed.ratio for speed in speeds if speed is not None)
    return f"**{found:.2f}**"


def _shown(speed: Speed | None) -> str:
    return "" if speed is None else told(speed.ratio, speed.low, speed.high)


def drawn(rows: Sequence[Row]) -> Plot:
    """The page's plot."""
    points = []
    for row in rows:
        speeds = {f"{each.trials} trials": each.speed for each in reversed(row.searches)}
        if row.rule is not None:
            speeds["by rule"] = row.rule
        points += [
            Point(series, row.model, speed.ratio, speed.low, speed.high)
            for series, speed in speeds.items()
        ]
    return Plot("speedup over eager", points)


_PAGE = """# TVM: by rule, and tuned

`tvm` schedules each function by rule and measures nothing; `tvm_meta_schedule` searches, with at
most 64 or 512 schedules measured for each function of a graph (and at most the seconds that
`--search` gives), each time from nothing known. All speedups are over eager, with 95 % intervals,
from one interleaved schedule a model. *Measured* is how many schedules were timed, for how many
functions; functions that take under 2 % of a graph's time are not searched for. Where that is far
below the trials, the seconds ended the search. *Seconds* is the first call, search and compiling
included. A search times schedules by themselves, over and over: what is fastest so need not be
so between a graph's other functions. So what was found is kept only where the whole graph is
faster with it, and a tuned model may end with the schedules by rule. For the comparison each is
compiled once more, from the records. A *start* is the first call in a new process, medians of
three: by rule, and with the records of the longer search.

There is a page for [an AMD EPYC](tvm-tuning.md), and for
[another that has AVX2 and no AVX-512](tvm-tuning-avx2.md).

torch's own `tvm` backend searches up to 20,000 schedules for a graph where `scheduler` is
`meta_schedule`; Update 3 has it in its ensemble, without a figure of its own.

{rows}

![The same speedups by model](images/tvm-tuning.svg)

{described}
"""


PART = Part(
    "tvm_tuning",
    "TVM by rule and tuned, over a part of the model zoo.",
    MODELS,
    Row,
    document,
    lambda row: _shown(row.searches[-1].speed) if row.searches else "",
    budget=15.0,
    timeout=3000.0,
    plot=drawn,
)


def main() -> int:
    """Measure what is not there yet, store, write."""
    parser = PART.parser()
    parser.add_argument("--search", type=float, default=600.0, help="most seconds of a search")
    given = parser.parse_args()
    return PART.measure(given, [f"--search={given.search}", "--trials", *map(str, TRIALS)])


if __name__ == "__main__":
    sys.exit(main())
