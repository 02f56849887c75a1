"""Can a comparison be believed? The same candidate against itself, and one made 5 % slower.

``python -m benchmarks.fairness --write docs/fairness.md`` runs, through ``dynamo_ext.compare``:

- A/A: a candidate against itself, compiled twice. Every difference that is found is false.
- A/B: a candidate against itself with a wait of 5 % of its time in every call. Every comparison
  that does not find it slower has missed it.

Both on an idle machine and with a process that keeps one core busy.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import dynamo_ext
from benchmarks import machine
from benchmarks.packed_rows import PackedRows, own
from benchmarks.stored_row import StoredRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLOWER = 0.05


@dataclass(frozen=True)
class Study(StoredRow):
    """How many of some comparisons found a difference.

    ``differs`` counts those that called the two different, ``covered`` those whose interval holds
    the true ratio.
    """

    name: str
    code: str
    busy: bool
    comparisons: int
    differs: int
    covered: int
    rounds: float
    ratio: float
    seconds: float


def plain(graph: Any, _inputs: Any) -> Callable[..., Any]:
    """A compiler that compiles nothing: the captured graph as it is."""
    forward: Callable[..., Any] = graph.forward
    return forward


def slower_by(seconds: float) -> Callable[..., Any]:
    """The same with a wait in every call."""

    def slower(graph: Any, _inputs: Any) -> Callable[..., Any]:
        forward = graph.forward

        def run(*args: Any) -> Any:
            result = forward(*args)
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                pass
            return result

        return run

    return slower


def codes() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Two kinds of code: many small operations, and a few large ones."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64) for _ in range(8)]
    mlp = torch.nn.Sequential(*(m for layer in layers for m in (layer, torch.nn.ReLU()))).eval()
    conv = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3), torch.nn.ReLU()
    ).eval()
    return {
        "MLP, 8 layers": (mlp, (torch.randn(16, 64),)),
        "CNN, 2 layers": (conv, (torch.randn(4, 3, 48, 48),)),
    }


def _burn() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy_core(*, on: bool) -> Iterator[None]:
    """Keep one core busy with another process, or not."""
    if not on:
        yield
        return
    process = multiprocessing.get_context("spawn").Process(target=_burn, daemon=True)
    process.start()
    try:
        time.sleep(1.0)
        yield
    finally:
        process.kill()
        process.join()


def study(name: str, *, injected: float, busy: bool, comparisons: int, budget: float) -> Study:
    """Compare one code again and again with a candidate ``injected`` slower (0: the same)."""
    code, args = codes()[name]
    differs = covered = rounds = 0
    ratios = []
    started = time.perf_counter()
    with torch.no_grad(), busy_core(on=busy):
        for number in range(comparisons):
            one: Any = plain
            second: Any = plain
            if injected:
                # Both look at the clock, so that the wait is all that differs.
                one = slower_by(0.0)
                first = dynamo_ext.compare(code, args, {"one": one}, rounds=10, baseline="one")
                timing = first["one"].timing
                if timing is None:
                    continue
                second = slower_by(injected * timing.median)
            found = dynamo_ext.compare(
                code, args, {"one": one, "two": second}, baseline="one", budget=budget, seed=number
            )
            speedup = found["two"].speedup
            if speedup is None:
                continue
            differs += speedup.verdict in {"faster", "slower"}
            covered += speedup.low <= 1 / (1 + injected) <= speedup.high
            rounds += speedup.rounds
            ratios.append(speedup.ratio)
            torch.compiler.reset()
            _say(
                f"{name}, {injected:.0%}, busy={busy}: {number + 1}/{comparisons}, {differs} found"
            )
    spent = time.perf_counter() - started
    return Study(
        "A/B" if injected else "A/A",
        name,
        busy,
        len(ratios),
        differs,
        covered,
        rounds / max(len(ratios), 1),
        sorted(ratios)[len(ratios) // 2],
        spent,
    )


def _say(text: str) -> None:
    print(f"\r\x1b[K{text}", end="", flush=True)


def document(studies: list[Study]) -> str:
    """The studies as a page of markdown."""
    rows = [
        f"| {s.name} | {s.code} | {'yes' if s.busy else 'no'} | {s.comparisons} "
        f"| {_share(s.differs, s)} "
        f"| {s.covered / s.comparisons:.0%} | {s.rounds:.0f} | {s.ratio:.3f} |"
        for s in studies
    ]
    return _PAGE.format(
        head=(__doc__ or "").split("\n", 2)[2].strip(),
        made_with=machine.sentence(),
        truth=f"{1 / (1 + SLOWER):.3f}",
        rows="\n".join(rows),
    )


def _share(count: int, study: Study) -> str:
    return f"{count} ({count / study.comparisons:.1%})"


_PAGE = """# Can a comparison be believed?

{head}

{made_with}

*Found different* is what a reader sees: at least 2 %, and an interval without 1. The true ratio is 1 for
A/A and {truth} for A/B.

Two compiled copies of the same code are not quite the same thing: they lie elsewhere in memory, and
the one that was compiled later is some 0.5 % faster. On an idle machine a hundred rounds resolve
that, so intervals are narrower than the difference between copies. This is what the margin of 2 %
is for. Candidates are compiled in random order, so that their place in the list has no effect.

| study | code | one core busy | comparisons | found different | interval holds the truth | rounds | median ratio |
|---|---|---|--:|--:|--:|--:|--:|
{rows}
"""  # noqa: E501 - a table's head is one line


def main() -> None:
    """Run the studies, resume where one was interrupted, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--comparisons", type=int, default=100)
    parser.add_argument("--budget", type=float, default=3.0, help="seconds for one comparison")
    parser.add_argument("--rows", type=Path, default=own("fairness"))
    parser.add_argument("--write", type=Path, help="the page to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    packed = PackedRows(arguments.rows, ("name", "code", "busy"))
    known = {packed.key(row): Study.from_dict(row) for row in packed.all()}
    done: list[Study] = []
    for injected in (0.0, SLOWER):
        for busy in (False, True):
            for name in codes():
                key = ("A/B" if injected else "A/A", name, busy)
                found = known.get(key) or study(
                    name,
                    injected=injected,
                    busy=busy,
                    comparisons=arguments.comparisons,
                    budget=arguments.budget,
                )
                done.append(found)
                packed.keep(found.to_dict())
    page = document(done)
    if arguments.write:
        arguments.write.write_text(page, encoding="utf-8")
    print("\n" + page)


if __name__ == "__main__":
    main()
