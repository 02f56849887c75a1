"""What dividing graphs for autograd costs: operations that leave the engine, and time.

``python -m benchmarks.training.division --write docs/division.md``: each model of the zoo once in
grad mode with ``divide`` and without, and ten training steps that bind logits and loss. Rows are
stored as they come; ``--again`` measures those that are there, ``--only-write`` none.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import truediv
from statistics import median

import torch
from torch import nn
from torch.nn import functional

import dynamo_ext
from benchmarks import machine, workers
from benchmarks.packed_rows import PackedRows, own
from benchmarks.part import add_storing
from benchmarks.stored_row import ModelRow, StoredRow
from benchmarks.training.turns import in_turn
from benchmarks.workers import Bounds
from benchmarks.zoo import MODELS

_PAGE = """# What it costs that autograd finds a cell's names

Written by `python -m benchmarks.training.division`: do not edit. Graphs are divided where one
result is computed from another ([why](limits.md)). `--opt divide=false` leaves them whole.

## Operations in the engine
Each model of [the zoo](models.md), with fewer layers than there, once in grad mode on `{backend}`:
operations of the forward graphs that run in the engine, whole and divided. Models are listed whose
numbers differ. Of all {count} together {share:.1%} of the operations that are in the engine when
graphs are whole are in it when they are divided.{missing}

| model | whole | divided |
|---|--:|--:|
{shares}

## Time
A training step that binds `logits` and `loss`, without an optimizer, on `{backend}`. Each way has a
process of its own, and only one of them works at a time: it takes its turn once the threads of the
one before are asleep, and has two steps that do not count. Each number is the median of {launches}
or more launches of the processes, and beside ratios are the lowest and the highest: the same code
takes longer in one process than in another, by where its memory lies. *Whole over whole* is of two
processes that do the same. What it is away from 1, the other ratio can be by chance, too.

A divided step calls a second function of AOTAutograd's, forward and backward, which takes some
0.2 ms here. The loss is in the engine, too: eager's `cross_entropy` wakes threads of torch's, which
spin for 7 ms on a core that the engine then lacks, and some steps took 1.6 times as long for it.

| step | whole, ms | divided, ms | divided over whole | whole over whole |
|---|--:|--:|--:|--:|
{times}

{machine}
"""
_WAYS = (False, True, False)
"""Whether graphs are divided, in each of the processes that take turns."""


@dataclass(frozen=True)
class Count(ModelRow):
    """Operations of a model's forward graphs in the engine, when these are whole and divided."""

    model: str
    error: str = ""
    whole: int = 0
    divided: int = 0


@dataclass(frozen=True)
class Time(StoredRow):
    """Seconds of a step in each launch: whole, divided, and whole in another process."""

    model: str
    whole: tuple[float, ...]
    divided: tuple[float, ...]
    again: tuple[float, ...]

    def cells(self) -> list[str]:
        """What the page shows of it."""
        medians = [f"{median(way) * 1e3:.2f}" for way in (self.whole, self.divided)]
        both = (self.divided, self.again)
        ratios = [sorted(map(truediv, way, self.whole)) for way in both]
        return [
            self.model,
            *medians,
            *(f"{median(r):.3f} [{r[0]:.3f}–{r[-1]:.3f}]" for r in ratios),
        ]


def counted(name: str, backend: str) -> Count:
    """A model's operations in the engine."""
    found = []
    for divide in (False, True):
        torch._dynamo.reset()  # noqa: SLF001 - torch's own documentation says so
        torch.manual_seed(0)
        built = MODELS[name].tiny()
        options = {"divide": divide, "verify": False}
        fast = dynamo_ext.optimize(backend, options=options)(built.module)
        fast(*built.args, **built.kwargs)
        parts = [part for graph in fast.report().graphs for part in graph.partitions]
        forward = [part for part in parts if part.role != "backward" and part.engine != "eager"]
        found.append(sum(part.operations for part in forward))
    return Count(name, "", *found)


def steps() -> dict[str, tuple[nn.Module, torch.Tensor, torch.Tensor]]:
    """Ten models with inputs and labels, whose steps take a millisecond or more."""
    torch.manual_seed(0)
    made: dict[str, tuple[nn.Module, torch.Tensor, torch.Tensor]] = {}
    for width, depth in itertools.product((256, 512), (2, 4)):
        layers = [nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)]
        net = nn.Sequential(*layers, nn.LayerNorm(width), nn.Linear(width, 10))
        title = f"MLP, {depth} layers of {width}, batch 128"
        made[title] = net, torch.randn(128, width), labels(128)
    for channels, size in itertools.product((16, 32), (16, 32)):
        convs = [nn.Conv2d(3, channels, 3, padding=1), nn.ReLU()]
        convs += [nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
        net = nn.Sequential(*convs, nn.Flatten(), nn.Linear(channels, 10))
        title = f"CNN, {channels} channels, 16 of {size} x {size}"
        made[title] = net, torch.randn(16, 3, size, size), labels(16)
    for width in (64, 128):
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 2)
        net = nn.Sequential(encoder, nn.Flatten(), nn.Linear(32 * width, 10))
        title = f"transformer, 2 layers of {width}, 8 of 32"
        made[title] = net, torch.randn(8, 32, width), labels(8)
    return made


def labels(count: int) -> torch.Tensor:
    """Classes at random."""
    return torch.randint(0, 10, (count,))


def step_of(title: str, backend: str, divide: bool) -> Callable[[], None]:  # noqa: FBT001 - an item of _WAYS
    """One of the steps, compiled."""
    net, x, y = steps()[title]

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        logits = net(x)
        return logits, functional.cross_entropy(logits, y)

    fast = dynamo_ext.optimize(backend, options={"divide": divide})(step)

    def call() -> None:
        net.zero_grad()
        fast()[1].backward()

    for _ in range(3):
        call()
    return call


def timed(title: str, backend: str, rounds: int, launches: int) -> Time:
    """The seconds of a step."""
    makers = [partial(step_of, title, backend, way) for way in _WAYS]
    found = [map(median, in_turn(makers, rounds)) for _ in range(launches)]
    return Time(title, *zip(*found, strict=True))


def page(counts: Sequence[Count], times: Sequence[Time], backend: str) -> str:
    """The page in Markdown."""
    known = [each for each in counts if not each.error]
    missing = [f"{each.model} ({each.error})" for each in counts if each.error]
    rows = [(each.model, f"{each.whole:,}", f"{each.divided:,}") for each in known]
    return _PAGE.format(
        backend=backend,
        count=len(known),
        share=sum(each.divided for each in known) / (sum(each.whole for each in known) or 1),
        missing=f" Not counted: {', '.join(missing)}" if missing else "",
        shares="\n".join(f"| {' | '.join(row)} |" for row in rows if row[1] != row[2]),
        launches=min((len(each.whole) for each in times), default=0),
        times="\n".join(f"| {' | '.join(each.cells())} |" for each in times),
        machine=machine.sentence(),
    )


def main() -> int:
    """Measure, store, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="onnxrt")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--models", nargs="*", default=[*MODELS], metavar="NAME", help="to count")
    parser.add_argument("--steps", nargs="*", default=[*steps()], metavar="NAME", help="to time")
    parser.add_argument("--count", help="one model in this process")
    add_storing(parser, 240.0)
    given = parser.parse_args()
    if given.count:
        return workers.go_through([given.count], lambda name: [counted(name, given.backend)])
    packed = PackedRows(given.rows or own("division"), ("model",))
    bounds = Bounds(given.timeout, given.memory)
    for (name,) in packed.missing([(name,) for name in (*given.models, *given.steps)], given):
        if name in MODELS:
            words = ["--count", name, "--backend", given.backend]
            said = workers.answer("training.division", words, bounds)
            row = Count(name, said).to_dict() if isinstance(said, str) else said
        else:
            row = timed(name, given.backend, given.rounds, given.launches).to_dict()
        packed.keep(row)
    if given.write:
        found = {row["model"]: row for row in packed.all()}
        counts = [Count.from_dict(found[name]) for name in MODELS if name in found]
        times = [Time.from_dict(found[name]) for name in steps() if name in found]
        given.write.write_text(page(counts, times, given.backend), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
