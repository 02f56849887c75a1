"""What a training step costs under ``inductor`` because it is as in eager.

``python -m benchmarks.training.cost --write docs/training-cost.md``: eager's random numbers against
torch's own, step by step in turn, and the memory of steps whose backward pass may run again.
"""

from __future__ import annotations

import argparse
import copy
import statistics
from pathlib import Path
from typing import Any

import torch
from torch import nn

import dynamo_ext
from benchmarks import machine
from benchmarks.call_cost import Times, timed
from dynamo_ext.measure.memory import peak_of

_PAGE = """# What a training step costs

Written by `python -m benchmarks.training.cost`: do not edit. Forward and backward pass of models
with dropout, without an optimizer, in milliseconds: the median of {rounds} rounds, in which all
take turns. By default `inductor` draws eager's random numbers, by eager's own operations;
`--opt random=torch` has Inductor draw its own in the code that it generates. Under `inductor` a
backward pass can run a second time, so that it cannot write to what the forward pass has saved;
torch.compile's writes there. MiB are the most that a step held above what was there before it, the
median of {steps} steps.

| model | eager | `inductor` | `random=torch` | `torch.compile` | default over `random=torch` | MiB, `random=torch` | MiB, `torch.compile` |
|---|--:|--:|--:|--:|--:|--:|--:|
{rows}

{machine}
"""  # noqa: E501 - a table's header
_STEPS = 7


def models() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Models in training mode, and what each is called with."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1, batch_first=True)
    layers = [nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.5)]
    return {
        "transformer, 4 layers of 256, batch 8 of 64": (
            nn.TransformerEncoder(layer, 4),
            torch.randn(8, 64, 256),
        ),
        "MLP, 4 layers of 512, batch 256": (
            nn.Sequential(*(copy.deepcopy(each) for _ in range(4) for each in layers)),
            torch.randn(256, 512),
        ),
    }


def row(title: str, model: nn.Module, x: torch.Tensor, rounds: int) -> str:
    """One model's row."""
    torchs = dynamo_ext.optimize("inductor", options={"random": "torch"})
    ways: list[Any] = [
        lambda plain: plain,
        dynamo_ext.optimize("inductor"),
        torchs,
        torch.compile,
    ]

    def step(compiled: nn.Module) -> None:
        compiled.zero_grad()
        compiled(x).square().mean().backward()

    made = [way(copy.deepcopy(model)) for way in ways]
    calls = {str(place): (lambda each=each: step(each)) for place, each in enumerate(made)}
    times = Times(timed(calls, rounds, 1))
    ratio = statistics.median(map(float.__truediv__, times.rounds["1"], times.rounds["2"]))
    held = []
    for name in "23":
        peaks = [peak_of(calls[name]) or 0 for _ in range(_STEPS)]
        held.append(f"{statistics.median(peaks) / 2**20:.1f}")
    shown = [f"{times.median(name) / 1e3:.2f}" for name in calls]
    return f"| {' | '.join([title, *shown, f'{ratio:.2f}', *held])} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    rows = "\n".join(row(title, *of, given.rounds) for title, of in models().items())
    told = {"rows": rows, "rounds": given.rounds, "steps": _STEPS, "machine": machine.sentence()}
    given.write.write_text(_PAGE.format(**told), encoding="utf-8")
