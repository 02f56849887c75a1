"""``auto`` over the model zoo: ``python -m benchmarks.auto --write docs/auto.md``.

Each model in a process of its own: its graphs are raced, and then ``auto`` and every backend alone
are compared in one interleaved schedule. Rows are stored as they come.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import machine
from benchmarks.auto_row import Row, Single
from benchmarks.auto_run import PREFIX, available
from benchmarks.zoo import MODELS

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS = Path(__file__).parent / "results" / "auto.json"
_ROOT = Path(__file__).parent.parent


def run(model: str, arguments: Sequence[str], seconds: float) -> Row:
    """A model's row, from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.auto_run", "--model", model, *arguments]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, on our own module
            command, env=environment, cwd=_ROOT, timeout=seconds, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        return Row(model, error=f"It had no result after {seconds:.0f} s.")
    for line in done.stdout.decode(errors="replace").splitlines():
        if line.startswith(PREFIX):
            return Row.from_dict(json.loads(line.removeprefix(PREFIX)))
    said = done.stderr.decode(errors="replace").strip().splitlines() or [""]
    return Row(model, error=f"The process ended with code {done.returncode}: {said[-1]}")


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    good = [row for row in rows if row.auto is not None and row.auto.outcome != "failed"]
    names = list(dict.fromkeys(single.name for row in good for single in row.singles))
    lines = [
        (
            "| model | eager, ms | auto over eager | chose | best alone | auto over best alone "
            "| race, s | known start, s | winner's own, s |"
        ),
        "|---|--:|--:|---|---|--:|--:|--:|--:|",
    ]
    lines += [_line(row) for row in good]
    lines += [f"| {row.model} | {row.error} |" for row in rows if row not in good]
    means = [_mean_line("**auto**", [_or_eager(row.auto) for row in good])]
    for name in names:
        found = [next((s for s in row.singles if s.name == name), None) for row in good]
        means.append(_mean_line(name, [_or_eager(single) for single in found]))
    return _PAGE.format(
        head=(__doc__ or "").split("\n", 2)[2].strip(),
        rows="\n".join(lines),
        means="\n".join(means),
        single=_singles(good, names),
        described=described,
    )


def _or_eager(single: Single | None) -> float:
    """What a user gets: eager's speed where a backend does not take the model."""
    return single.ratio if single is not None and single.ratio else 1.0


def _mean_line(name: str, ratios: Sequence[float]) -> str:
    if not ratios:
        return f"| {name} | | |"
    return f"| {name} | {statistics.geometric_mean(ratios):.2f} | {min(ratios):.2f} |"


def _line(row: Row) -> str:
    chose = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in row.winners)
    known = row.known_start and f"{row.known_start:.2f}"
    alone = row.winner_start and f"{row.winner_start:.2f}"
    best = row.over_best and row.over_best.name
    alone_ratio = next((single.ratio for single in row.singles if single.name == best), 1.0)
    cells = [
        row.model,
        f"{row.eager_seconds * 1e3:.2f}",
        _shown(row.auto),
        chose or "no graph",
        f"{best} {alone_ratio:.2f}" if best else "",
        _shown(row.over_best),
        f"{row.race_seconds:.0f}",
        known or "",
        alone or "",
    ]
    return f"| {' | '.join(cells)} |"


def _shown(single: Single | None) -> str:
    if single is None:
        return ""
    if not single.ratio:
        return single.outcome
    return f"{single.ratio:.2f} ({single.low:.2f}–{single.high:.2f})"


def _singles(rows: Sequence[Row], names: Sequence[str]) -> str:
    lines = [f"| model | {' | '.join(names)} |", f"|---|{'--:|' * len(names)}"]
    for row in rows:
        cells = {single.name: _shown(single) for single in row.singles}
        lines.append(f"| {row.model} | {' | '.join(cells.get(name, '') for name in names)} |")
    return "\n".join(lines)


_PAGE = """# auto over the model zoo

{head}

Speedups are medians of ratios within a round, with their 95 % intervals. *Known start* is a first
call in which the race is remembered; beside it the first call of the winner by itself (medians of
three, in turn, in one process). *Best alone* is the fastest single backend, eager among them.

{rows}

## Geometric means

Over all models; where a backend does not take a model, the user has eager, and it counts as 1.

| | geometric mean | worst |
|---|--:|--:|
{means}

## Each backend alone, over eager

{single}

{described}
"""


def main() -> int:
    """Measure what is not there yet, store, write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.auto", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--models", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="NAME"
    )
    parser.add_argument("--backends", default="", help="who races, by commas")
    parser.add_argument("--quick", action="store_true", help="tiny forms")
    parser.add_argument("--budget", type=float, default=30.0, help="seconds for a comparison")
    parser.add_argument("--race", type=float, default=5.0, help="seconds for a graph's race")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for a model")
    parser.add_argument("--again", action="store_true", help="measure anew what is stored")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where rows are stored")
    parser.add_argument("--write", type=Path, help="the page to write")
    given = parser.parse_args()
    rows: dict[str, Row] = {}
    if given.json.exists():
        stored = json.loads(given.json.read_text(encoding="utf-8"))
        rows = {row.model: row for row in map(Row.from_dict, stored)}
    passed = [f"--budget={given.budget}", f"--race={given.race}"]
    passed += [f"--backends={given.backends or ','.join(available())}"]
    passed += ["--quick"] if given.quick else []
    for model in given.models:
        if model in rows and not given.again:
            continue
        row = rows[model] = run(model, passed, given.timeout)
        print(f"{model}: {_shown(row.auto)} {row.error}", flush=True)
        given.json.parent.mkdir(parents=True, exist_ok=True)
        records = [each.to_dict() for each in rows.values()]
        given.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    ordered = [rows[model] for model in MODELS if model in rows]
    if given.write:
        page = document(ordered, machine.sentence())
        given.write.write_text(page, encoding="utf-8")
    return int(any(row.error for row in ordered))


if __name__ == "__main__":
    sys.exit(main())
