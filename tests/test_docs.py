"""The documentation builds as a site, with no dead link, and its first page is the README."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
