"""How large the code is: ``python -m benchmarks.code_size`` reads the sources, and runs none."""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from pathlib import Path

from dynamo_ext.torch_private.version import patches, private_names

ROOT = Path(__file__).parents[1]
PARTS = ("dynamo_ext", "tests", "benchmarks")
LONG, FULL = 300, 20


def files(part: str) -> list[Path]:
    """The Python files of a folder and those below it."""
    return sorted((ROOT / part).rglob("*.py"))


def lines(path: Path) -> int:
    """All lines of a file, comments and empty ones too."""
    return len(path.read_text().splitlines())


def counts() -> dict[str, int]:
    """What ``size.toml`` bounds, by its names there."""
    private = [p for p in files("dynamo_ext") if "torch_private" in str(p.relative_to(ROOT))]
    trees = [ast.parse(p.read_text()) for p in private]
    return {
        **{part: sum(map(lines, files(part))) for part in PARTS},
        "patches": sum(len(patches(tree)) for tree in trees),
        "private_names": len(set().union(*map(private_names, trees))),
    }


def main() -> None:
    """Print the numbers, and the files and folders that are large."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    for name, number in counts().items():
        print(f"{name}: {number}")
    sizes = {path: lines(path) for part in PARTS for path in files(part)}
    long = [path for path in sizes if sizes[path] > LONG]
    print(f"files of more than {LONG} lines: {len(long)}")
    for path in sorted(long, key=lambda each: -sizes[each]):
        print(f"  {path.relative_to(ROOT)} {sizes[path]}")
    full = {folder: n for folder, n in Counter(p.parent for p in sizes).items() if n > FULL}
    print(f"folders of more than {FULL} files: {len(full)}")
    for folder, count in full.items():
        print(f"  {folder.relative_to(ROOT)} {count}")


if __name__ == "__main__":
    main()
