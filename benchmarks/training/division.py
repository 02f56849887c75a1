"""What dividing graphs for autograd costs: operations that leave the engine, and time.

``python -m benchmarks.training.division --write docs/division.md``: each model of the zoo once in
grad mode with ``divide`` and without, and ten training steps that bind logits and loss, in turn.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import dynamo_ext
from benchmarks import machine
from benchmarks.call_cost import Times, timed
from benchmarks.zoo import MODELS

_PAGE = """# What it costs that autograd finds a cell's names

Written by `python -m benchmarks.training.division`: do not edit. Graphs are divided where one
result is computed from another ([why](limits.md)). `--opt divide=false` leaves them whole.

## Operations in the engine
Each model of [the zoo](models.md), with fewer layers than there, once in grad mode on `{backend}`:
operations of the forward graphs that run in the engine, whole and divided. Models are listed whose
numbers differ. Of all {count} together {share:.1%} of the operations that are in the engine when
graphs are whole are in it when they are divided.

| model | whole | divided |
|---|--:|--:|
{shares}

## Time
A training step that binds `logits` and `loss`, without an optimizer, on `{backend}`: the median of
{rounds} rounds in which both take turns, and the median of the ratios within a round.
The threads of the engines of both spin beside each other while they take turns, so that a ratio
swings from run to run by more than dividing costs: one row was 2.30 in one run, and 0.45 in the
next. A row alone shows no difference of a few percent.

| step | whole, ms | divided, ms | divided over whole |
|---|--:|--:|--:|
{times}

{machine}
"""
_WAYS = (False, True)


def in_engine(name: str, backend: str) -> list[int]:
    """Operations of a model's forward graphs in the engine, when these are whole and divided."""
    found = []
    for divide in _WAYS:
        torch._dynamo.reset()  # noqa: SLF001 - torch's own documentation says so
        torch.manual_seed(0)
        built = MODELS[name].tiny()
        options = {"divide": divide, "verify": False}
        fast = dynamo_ext.optimize(backend, options=options)(built.module)
        fast(*built.args, **built.kwargs)
        parts = [part for graph in fast.report().graphs for part in graph.partitions]
        forward = [part for part in parts if part.role != "backward" and part.engine != "eager"]
        found.append(sum(part.operations for part in forward))
    return found


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


def timed_step(
    net: nn.Module, x: torch.Tensor, y: torch.Tensor, backend: str, rounds: int
) -> Times:
    """Microseconds of a step, when its graph is whole ("False") and divided ("True")."""

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        logits = net(x)
        return logits, functional.cross_entropy(logits, y)

    def trained(divide: bool) -> Callable[[], None]:  # noqa: FBT001 - an item of _WAYS
        torch._dynamo.reset_code(step.__code__)  # noqa: SLF001 - as above, for one function
        fast = dynamo_ext.optimize(backend, options={"divide": divide})(step)

        def call() -> None:
            net.zero_grad()
            fast()[1].backward()

        for _ in range(3):
            call()
        return call

    torch._dynamo.reset()  # noqa: SLF001 - as above
    return Times(timed({str(each): trained(each) for each in _WAYS}, rounds, 1))


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, required=True)
    parser.add_argument("--backend", default="onnxrt")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--models", default=",".join(MODELS), help="names of the zoo, by commas")
    given = parser.parse_args()
    counts = {}
    for name in filter(None, given.models.split(",")):
        counts[name] = in_engine(name, given.backend)
        gc.collect()
    whole, divided = (sum(each[i] for each in counts.values()) for i in (0, 1))
    rows = [f"| {n} | {a:,} | {b:,} |" for n, (a, b) in counts.items() if a != b]
    times = []
    for title, of in steps().items():
        found = timed_step(*of, given.backend, given.rounds)
        ratios = map(float.__truediv__, found.rounds["True"], found.rounds["False"])
        median = [f"{found.median(str(each)) / 1e3:.2f}" for each in _WAYS]
        times.append(f"| {' | '.join([title, *median, f'{statistics.median(ratios):.3f}'])} |")
    page = _PAGE.format(
        backend=given.backend, count=len(counts), share=divided / (whole or 1),
        shares="\n".join(rows), rounds=given.rounds, times="\n".join(times),
        machine=machine.sentence(),
    )  # fmt: skip
    given.write.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
