"""``auto`` over the model zoo: ``python -m benchmarks.auto --write docs/auto.md``.

Each model in a process of its own: its graphs are raced, and then ``auto``, every backend alone and
what people run without us are compared in one interleaved schedule. Rows are stored as they come.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import machine, one_process
from benchmarks.auto_row import Row
from benchmarks.auto_run import available
from benchmarks.auto_table import document, shown
from benchmarks.zoo import MODELS

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS = Path(__file__).parent / "results" / "auto.json"


def run(model: str, arguments: Sequence[str], seconds: float) -> Row:
    """A model's row, from a process of its own."""
    found = one_process.answer("auto_run", ["--model", model, *arguments], seconds)
    return Row(model, error=found) if isinstance(found, str) else Row.from_dict(found)


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
    parser.add_argument("--no-peers", action="store_true", help="our backends alone")
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
    passed += ["--no-peers"] if given.no_peers else []
    for model in given.models:
        if model in rows and not given.again:
            continue
        row = rows[model] = run(model, passed, given.timeout)
        print(f"{model}: {shown(row.auto)} {row.error}", flush=True)
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
