"""What one call of a tiny graph costs, by backend, and where it goes.

``python -m benchmarks.call_cost --write docs/call-cost.md``. Everything that is compared is timed
in turn, round by round: a machine that slows down slows all of it down.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import machine, markdown
from benchmarks.backends import BACKENDS
from benchmarks.call_split import Call, candidates

ROUNDS = 200
CALLS = 50
"""So few that a batch is over before another program's turn; the median passes over the others."""
GOAL = 5.0
"""Microseconds that a call may cost over torch's own, engine apart."""


@dataclass
class Times:
    """Microseconds of a call, one number for each round."""

    rounds: dict[str, list[float]]
    missing: dict[str, str] = field(default_factory=dict)

    def median(self, name: str) -> float:
        """The median of a candidate's rounds."""
        return statistics.median(self.rounds[name])

    def spread(self, name: str) -> tuple[float, float]:
        """The lower and the upper quartile."""
        low, _, high = statistics.quantiles(self.rounds[name], method="inclusive")
        return low, high

    def difference(self, more: str, less: str) -> float:
        """The median of the differences within a round."""
        pairs = zip(self.rounds[more], self.rounds[less], strict=True)
        return statistics.median(a - b for a, b in pairs)


def timed(calls: Mapping[str, Call], rounds: int, inner: int) -> dict[str, list[float]]:
    """Time each of ``calls`` in every round, the collector off."""
    clock = time.perf_counter_ns
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(inner // 10 + 1):
            call()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, call in calls.items():
                started = clock()
                for _ in range(inner):
                    call()
                found[name].append((clock() - started) / inner / 1e3)
    finally:
        gc.enable()
    return found


def workloads() -> dict[str, tuple[types.FunctionType, Any]]:
    """The tiny functions, and what each is called with."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).eval()

    def add_one(x: Any) -> Any:
        return x + 1

    def two_layers(x: Any) -> Any:
        return mlp(x)

    return {
        "`x + 1` on 8 floats": (_function(add_one), torch.randn(8)),
        "an MLP of two layers of 16, batch 4": (_function(two_layers), torch.randn(4, 16)),
    }


def _function(value: Any) -> types.FunctionType:
    if not isinstance(value, types.FunctionType):
        raise TypeError(value)
    return value


def measure(backends: Sequence[str], rounds: int, inner: int) -> dict[str, Times]:
    """The times of every candidate, by workload."""
    import torch

    found = {}
    for title, (function, x) in workloads().items():
        with torch.no_grad():
            made = candidates(function, x, backends)
            found[title] = Times(timed(made.calls, rounds, inner), made.missing)
    return found


def watch_cost(rounds: int, inner: int) -> dict[int, float]:
    """Microseconds for the look at ten frozen weights, by how many there are in all."""
    import torch

    from dynamo_ext.backends.pipeline.freeze import Watch

    found = {}
    for count in (10, 100):
        weights = [torch.nn.Parameter(torch.randn(4, 4)) for _ in range(count)]
        watch = Watch(dict(enumerate(weights)))
        took = timed({"watch": lambda w=watch, a=weights: w.fresh(a)}, rounds, inner)  # type: ignore[misc]
        found[count] = statistics.median(took["watch"]) * 10 / count
    return found


def own_share(times: Times, name: str) -> float | None:
    """What is ours of a call: over torch's own backend of the name, or dispatch and binding."""
    if f"torch {name}" in times.rounds:
        return times.difference(name, f"torch {name}")
    if f"{name} bare" not in times.rounds:
        return None
    dispatch, binding = (f"{name} empty", "guards"), (f"{name} run", f"{name} bare")
    return times.difference(*dispatch) + times.difference(*binding)


_HEAD = "backend | a call, µs | over compiled eager | dispatch | binding | engine | our share"


def table(title: str, times: Times, backends: Sequence[str]) -> list[str]:
    """One workload's table in Markdown."""
    lines = [
        f"## {title[0].upper()}{title[1:]}",
        "",
        (
            f"Plain eager {_us(times, 'plain')}; `torch.compile` with `eager` "
            f"{_us(times, 'torch eager')}, with `aot_eager` {_us(times, 'torch aot_eager')}. "
            f"Dynamo's guards and bytecode {times.median('guards'):.1f} µs."
        ),
        "",
    ]
    rows = []
    for name in backends:
        if name in times.missing:
            rows.append([name, times.missing[name], *[""] * 5])
            continue
        share = own_share(times, name)
        row = [
            name,
            _us(times, name).removesuffix(" µs"),
            f"{times.difference(name, 'torch eager'):+.1f}",
            *_split(times, name),
            "" if share is None else f"{share:.1f}{'' if share <= GOAL else ' (missed)'}",
        ]
        rows.append(row)
    return [*lines, markdown.table(_HEAD, rows), ""]


def _split(times: Times, name: str) -> tuple[str, str, str]:
    """Dispatch, binding and engine."""
    if f"{name} empty" not in times.rounds:
        return "", "", ""
    dispatch = f"{times.difference(f'{name} empty', 'guards'):.1f}"
    if f"{name} bare" not in times.rounds:
        return dispatch, "", f"{times.median(f'{name} run'):.1f} with binding"
    binding = times.difference(f"{name} run", f"{name} bare")
    return dispatch, f"{binding:.1f}", f"{times.median(f'{name} bare'):.1f}"


def _us(times: Times, name: str) -> str:
    low, high = times.spread(name)
    return f"{times.median(name):.1f} [{low:.1f}–{high:.1f}] µs"


def page(
    found: Mapping[str, Times], watch: Mapping[int, float], backends: Sequence[str], rounds: int
) -> str:
    """The whole page in Markdown."""
    lines = [
        "# What a call costs",
        "",
        (
            "Written by `make callcost`. Microseconds of one call under `no_grad`: the median of "
            f"{rounds} rounds of {CALLS} calls, and its quartiles in brackets; all candidates take "
            "turns within a round, and differences are taken within a round."
        ),
        "",
        (
            "- **over compiled eager**: the whole call, against `torch.compile` with torch's own "
            "`eager`; below zero the engine more than makes up for the way to it."
        ),
        (
            "- **dispatch**: ours between Dynamo and the engine, with the watch on frozen weights: "
            "the call with an engine that returns kept results, less Dynamo over kept results. "
            "AOTAutograd has no part in it where it has nothing to do at a call."
        ),
        (
            "- **binding**: from torch's tensors to the engine's and back; the lowered function "
            "alone, less the engine's own call on tensors bound once."
        ),
        (
            "- **our share**: the two together; for backends that take a graph whole, the call "
            f"less torch's own backend of that name. The goal is {GOAL:.0f} µs at most."
        ),
        "",
        (
            f"The watch on frozen weights takes {watch[10]:.2f} µs for ten weights, and "
            f"{watch[100]:.2f} µs for every ten of a hundred (the goal was 1 µs)."
        ),
        "",
    ]
    for title, times in found.items():
        lines += table(title, times, backends)
    return "\n".join([*lines, machine.sentence(), ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="What one call of a tiny graph costs.")
    parser.add_argument("--write", type=Path, help="write the page here instead of printing it")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS))
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(given.threads)
    found = measure(given.backends, given.rounds, given.calls)
    text = page(found, watch_cost(given.rounds, given.calls), given.backends, given.rounds)
    if given.write:
        given.write.parent.mkdir(parents=True, exist_ok=True)
        given.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
