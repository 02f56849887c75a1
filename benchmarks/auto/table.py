"""The page of ``benchmarks.auto``: what each model came to, and the means."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import TYPE_CHECKING

from benchmarks.auto.run import Row, Single
from benchmarks.markdown import table, told
from benchmarks.plot import Plot, Point
from benchmarks.zoo import MODELS
from dynamo_ext.formatting import count, printable
from dynamo_ext.records.comparison import verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    good = [row for row in rows if row.auto is not None and row.auto.outcome != "failed"]
    names = list(dict.fromkeys(single.name for row in good for single in row.singles))
    failed = [[row.model, row.error] for row in rows if row not in good]
    steps = [row for row in good if _learns(row)]
    others = [row for row in good if not _learns(row)]
    chosen = Counter(dict.fromkeys(names, 0))
    for row in good:
        chosen.update(dict(row.winners))
    return _PAGE.format(
        rows=table(_HEAD, [*map(_cells, good), *failed]),
        means=_means(others, names),
        learning=_means(steps, names) if steps else "Not measured yet.",
        chosen=", ".join(f"{name} {times}" for name, times in chosen.most_common()),
        single=_table({row.model: row.singles for row in good}, names, shown),
        peers=_peers(others),
        learning_peers=_peers(steps),
        costs=_table({row.model: row.singles for row in good}, names, _cost),
        described=described,
        starts=_starts(good),
    )


_HEAD = (
    "model | eager, ms: | auto over eager: | chose | best alone | auto over best alone: "
    "| race, s: | known start, s: | winner's own, s:"
)


def _learns(row: Row) -> bool:
    model = MODELS.get(row.model)
    return model is not None and model.learns


def _means(rows: Sequence[Row], names: Sequence[str]) -> str:
    """A line for ``auto`` and for each backend."""
    lines = [_mean("**auto**", [row.auto for row in rows])]
    lines += [_mean(name, [_named(row.singles, name) for row in rows]) for name in names]
    return table(" | geometric mean: | worst:", lines)


def _starts(rows: Sequence[Row]) -> str:
    """What knowing a race's winner costs at the start, over all models that have one."""
    ratios = [row.known_start / row.winner_start for row in rows if row.winner_start]
    if not ratios:
        return ""
    mean, least, most = statistics.geometric_mean(ratios), min(ratios), max(ratios)
    return (
        f"Over {count(len(ratios), 'model')} a known start takes {mean:.2f} of the winner's own "
        f"first call (geometric mean), {least:.2f} to {most:.2f} by model."
    )


def _named(singles: Sequence[Single], name: str) -> Single | None:
    return next((single for single in singles if single.name == name), None)


def _mean(name: str, found: Sequence[Single | None]) -> list[str]:
    """What users get: eager's speed where a backend does not take a model."""
    ratios = [single.ratio if single is not None and single.ratio else 1.0 for single in found]
    if not ratios:
        return [name, "", ""]
    return [name, f"{statistics.geometric_mean(ratios):.2f}", f"{min(ratios):.2f}"]


def _cells(row: Row) -> list[str]:
    chose = ", ".join(f"{name} ×{times}" if times > 1 else name for name, times in row.winners)
    known = row.known_start and f"{row.known_start:.2f}"
    alone = row.winner_start and f"{row.winner_start:.2f}"
    best = row.over_best and row.over_best.name
    alone_ratio = next((single.ratio for single in row.singles if single.name == best), 1.0)
    return [
        row.model,
        f"{row.eager_seconds * 1e3:.2f}",
        shown(row.auto),
        chose or "no graph",
        f"{best} {alone_ratio:.2f}" if best else "",
        shown(row.over_best),
        f"{row.race_seconds:.0f}",
        known or "",
        alone or "",
    ]


def shown(single: Single | None) -> str:
    """A speedup with its interval, or why there is none."""
    if single is None:
        return ""
    if not single.ratio:
        return single.outcome
    text = told(single.ratio, single.low, single.high)
    verdict = verdict_of(single.ratio, single.low, single.high)
    return f"{text}, {verdict}" if verdict in {"same", "unclear"} else text


def _cost(single: Single | None) -> str:
    """Seconds of compiling, and mebibytes of a call."""
    if single is None or not single.first_seconds:
        return ""
    peak = "" if single.peak_bytes is None else f", {single.peak_bytes / 2**20:.0f}"
    return f"{single.first_seconds:.1f}{peak}"


def _table(
    rows: Mapping[str, Sequence[Single]], names: Sequence[str], cell: Callable[[Single | None], str]
) -> str:
    return table(
        " | ".join(["model", *(f"{name}:" for name in names)]),
        [
            [model, *(cell(_named(singles, name)) for name in names)]
            for model, singles in rows.items()
        ],
    )


def _peers(measured: Sequence[Row]) -> str:
    rows = [row for row in measured if row.peers]
    if not rows:
        return "Not measured yet."
    names = list(dict.fromkeys(single.name for row in rows for single in row.peers))
    beside = {row.model: ((row.auto,) if row.auto else ()) + row.peers for row in rows}
    means = [
        _mean(name, [_named(found, name) for found in beside.values()]) for name in ["auto", *names]
    ]
    means_table = table("over these models | geometric mean: | worst:", means)
    reasons = [
        f"- {row.model}, {single.name}: {single.outcome}: `{printable(single.reason)}`"
        for row in rows
        for single in row.peers
        if single.reason
    ]
    return "\n".join([_table(beside, ["auto", *names], shown), "", means_table, "", *reasons])


def drawn(rows: Sequence[Row]) -> Plot:
    """The page's plot: who was measured, on each model."""
    return Plot(
        "speedup over eager",
        [
            Point(single.name, row.model, single.ratio, single.low, single.high)
            for row in rows
            for single in (row.auto, *row.singles)
            if single is not None and single.ratio
        ],
    )


_PAGE = """# Speed: auto, each backend alone, and what people run without us

What is fastest differs by processor, which the last line names. There is a page for
[an AMD EPYC](auto.md), for [another that has AVX2 and no AVX-512](auto-avx2.md), and for
[an Intel Xeon](auto-xeon.md).

Each model runs in a process of its own: its graphs are raced, and then `auto`, every backend alone
and the peers are compared in one interleaved schedule (`dynamo_ext.compare`). When this was
measured `ts` and `ofi` raced by default, and a race timed its candidates for longer than now.

Speedups are medians of ratios within a round, with their 95 % intervals. *Known start* is a first
call in which the race is remembered; beside it the first call of the winner by itself (medians of
three, in turn, in one process). *Best alone* is the fastest single backend, eager among them.
*Same*: under 2 % apart, or 1 lies in the interval; *unclear*: that goes on beyond 10 %. Where
`auto` chose the best one alone, they run the same code:
[how far apart two such copies are](copies.md).

A *training step* is forward, loss, gradients and plain gradient descent in one function; its
weights are put back before every call that is timed. Peers that only run inference fail there.
Gradients jump where a ReLU or the maximum of a window turns. Where a backend is called *wrong* on
ResNet-18's step, that may be all: eager's own gradients move by up to 0.26 of the largest where
its inputs change by half of their last digit. `compare` has
looked at that only since these rows were measured.

The posts' figures: Update 3's ensemble of ten backends had a geometric mean of 1.71 on a CPU and
1.29 on a GPU, over other models and machines, with eager of 2021.

{rows}

{starts}

![auto and each backend alone over eager, by model](images/auto.svg)

## Geometric means

Over all models in inference; where a backend does not take a model, the user has eager, and it
counts as 1.

{means}

Over the training steps:

{learning}

## How often auto chose each, over all graphs

{chosen}.

## Each backend alone, over eager

{single}

## What people run without us, over eager, in the same rounds

`torch.compile` is plain Inductor. OpenVINO's torch.compile is its own backend, told to compute in
float32 as everybody else here. ONNX Runtime runs `torch.onnx.export`'s model on NumPy arrays, and
is told to stop spinning after each run, for its thread would else hold a core while others run.
TVM's `relax_dynamo` is untuned, and tried only where eager takes less than 10 ms.
`torch.jit.freeze` is traced, frozen, and optimised for inference. What does not run counts as
eager in the means.

Where ONNX Runtime by itself is ahead of `onnxrt`, it runs the same optimised graph in the same
time (on an AMD EPYC, SqueezeNet 2.4 ms in either session, MNASNet 3.2). What comes on top, 0.5 ms
and 1.9 ms, is mostly done before each call. In calls of MNASNet one after another it is 1.2 ms:
0.9 are Dynamo's guards on 263 weights and their modules (0.15 where what they read is in the
processor's caches, but a call of the engine drives it out), 0.2 our watch on frozen weights,
0.02 AOTAutograd's wrapper. Every `torch.compile` has the guards; a session of one's own checks
nothing. [What skipping most of them saves](guards.md) was measured at another time: 0.5 ms there.

Of NaN and infinity ONNX Runtime's recurrent layers make numbers, so `onnxrt` looks at each call
whether they read any, which a session of one's own does not. (A row with the LSTM tagger at 0.98
is from before `onnxrt` took such layers.) `torch.jit.freeze` of the early exit is the one way
through the model that its tracing saw, whatever the input.

{peers}

### Training steps

{learning_peers}

## Seconds of the first call, and MiB that one call takes beyond what was resident

{costs}

{described}
"""
