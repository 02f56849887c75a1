"""The documentation builds as a site, with no dead link, and its first page is the README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dynamo_ext.backends import registry

pytest.importorskip("mkdocs")

ROOT = Path(__file__).resolve().parents[1]


def test_the_site_builds_and_every_page_is_in_it(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages <= {path.stem for path in tmp_path.glob("*.html")}
    first = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "A Jupyter workbench for PyTorch compiler backends" in first
    assert 'src="images/report.png"' in first
    assert 'href="models.html"' in first
    assert 'href="notebooks/quickstart.html"' in first
    reference = {
        "api": [f'id="dynamo_ext.{name}"' for name in ("optimize", "compare", "Backend", "Report")],
        "magics": ["%%dynamo run", "--per-graph"],
        "options": [f'id="{name}"' for name in registry.OURS],
    }
    for page, parts in reference.items():
        text = (tmp_path / f"{page}.html").read_text(encoding="utf-8")
        assert [part for part in parts if part not in text] == []


@pytest.mark.parametrize(
    "page", ["adding-an-engine", "guard-sentences", "new-torch-version", "comparison-column"]
)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    named = re.findall(r"`((?:[\w.]+/)+[\w.]*|[\w-]+\.(?:md|toml|txt))`", text)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_page_on_engines_names_every_file_that_names_one() -> None:
    page = (ROOT / "docs" / "adding-an-engine.md").read_text(encoding="utf-8")
    own = ROOT / "dynamo_ext" / "backends" / "engines" / "openvino"
    files = [p for part in ("dynamo_ext", "benchmarks") for p in (ROOT / part).rglob("*.py")]
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in files
        if own not in path.parents and re.search(r"[\"',]openvino\b", path.read_text())
    }
    named = re.findall(r"`((?:dynamo_ext|benchmarks)/[\w/]+\.py)`", page)
    assert naming == {name for name in named if "/engines/" not in name}
