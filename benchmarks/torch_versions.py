"""What the tests found on each version of torch: ``make versions`` adds a row for each.

``python -m benchmarks.torch_versions --add build/versions/2.14.1.xml`` reads what pytest wrote, in
the environment that it ran in; ``--write docs/versions.md`` writes the page from all rows.
"""

from __future__ import annotations

import argparse
import datetime as dt
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import torch

from benchmarks import packed_rows
from benchmarks.markdown import cell, line
from dynamo_ext.torch_private import version

_PAGE = """# Versions of torch

Written by `make versions`: do not edit. On each version of torch these tests ran, with the other
packages as in `constraints.txt`: private names of torch's, capture, the corpus of cells, the
pipeline, ONNX Runtime, comparisons, `auto` and the magics. On a version of `SEEN_ON`
(`dynamo_ext/torch_private/version.py`) without a row, the tests of private names and of capture's
patches have run, and not all of these. pip takes any torch from 2.11 on. With a minor version that
is in neither, `%dynamo backends` and each report say so.

| torch | Python | Date | Passed | Failed | Skipped |
|---|---|---|--:|--:|--:|
{rows}

## What failed

{failed}

## What a version lacks

{lacking}

## Tests that were skipped

{skipped}
"""


def main() -> None:
    """Add a row, or write the page, or both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--add", type=Path, nargs="+", help="what pytest wrote with --junitxml; a later file counts"
    )
    parser.add_argument("--write", type=Path, help="the page")
    given = parser.parse_args()
    path = packed_rows.of_any_machine("torch-versions")
    store = packed_rows.PackedRows(path, ("torch", "python"))
    if given.add:
        store.add(_row(given.add))
        store.save()
    if given.write:
        given.write.write_text(_page(store.all()), encoding="utf-8")


def _row(paths: Sequence[Path]) -> dict[str, Any]:
    trees = [ET.parse(path) for path in paths]  # noqa: S314 - pytest wrote them here
    cases = {_name(case): case for tree in trees for case in tree.iter("testcase")}.values()
    failed = [case for case in cases if {"failure", "error"} & {found.tag for found in case}]
    skips = [skip for case in cases if (skip := case.find("skipped")) is not None]
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": dt.date.today().isoformat(),  # noqa: DTZ011 - a day is enough
        "passed": len(cases) - len(failed) - len(skips),
        "failed": sorted(map(_name, failed)),
        "skipped": dict(sorted(Counter(skip.get("message", "") for skip in skips).items())),
        "lacking": version.switched_off(),
    }


def _name(case: ET.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def _page(rows: list[dict[str, Any]]) -> str:
    counts = [(row["passed"], len(row["failed"]), sum(row["skipped"].values())) for row in rows]
    reasons = sorted({reason for row in rows for reason in row["skipped"]})
    return _PAGE.format(
        rows="\n".join(
            line([row["torch"], row["python"], row["date"], *map("{:,}".format, count)])
            for row, count in zip(rows, counts, strict=True)
        ),
        failed=_listed(
            f"torch {row['torch']}, Python {row['python']}: {test}"
            for row in rows
            for test in row["failed"]
        ),
        lacking=_listed(f"torch {row['torch']}: {lost}" for row in rows for lost in row["lacking"]),
        skipped=_listed(f"{cell(reason)}: {_of(reason, rows)}" for reason in reasons),
    )


def _of(reason: str, rows: list[dict[str, Any]]) -> str:
    return ", ".join(dict.fromkeys(row["torch"] for row in rows if reason in row["skipped"]))


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {each}" for each in lines) or "None."


if __name__ == "__main__":
    main()
