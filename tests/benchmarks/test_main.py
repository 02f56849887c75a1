"""``python -m benchmarks``: which parts run, and how."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks import __main__ as bench

ROOT = Path(__file__).resolve().parents[2]


def given(**facts):
    usual = {"quick": False, "full": False, "device": "cpu", "models": None, "backends": None}
    return Namespace(**{**usual, **facts})


def test_a_full_run_writes_the_page():
    words = bench.command("fairness", given(), Path("x"))
    assert words[1:] == ["-m", "benchmarks.fairness", "--write", "docs/fairness.md"]


def test_a_quick_run_writes_nothing_of_ours():
    words = bench.command("auto", given(quick=True, backends=["ts", "ofi"]), Path("x"))
    assert "--write" not in words
    assert words[words.index("--rows") + 1] == str(Path("x") / "auto.jsonl.gz")
    assert words[words.index("--backends") + 1] == "ts,ofi"


def test_another_form_has_pages_of_its_own():
    words = bench.command("auto", given(full=True, device="cuda:1"), Path("x"))
    assert words[3:6] == ["--full", "--device", "cuda:1"]
    assert words[words.index("--write") + 1] == "docs/auto-cuda1-full.md"
    assert "--rows" not in words


def test_what_is_not_of_the_zoo_has_no_other_form(capsys):
    with pytest.raises(SystemExit):
        bench.main(["fairness", "--full"])
    assert "only capture, models, partition, auto run on another device" in capsys.readouterr().err


def test_models_are_passed_on():
    words = bench.command("models", given(models=["MLP"], backends=["ts"]), Path("x"))
    assert words[-4:] == ["--models", "MLP", "--backends", "ts"]


def test_another_part_is_an_error(capsys):
    with pytest.raises(SystemExit):
        bench.main(["nothing"])
    assert "there is no part nothing" in capsys.readouterr().err


def test_a_part_that_fails_is_named(monkeypatch, capsys):
    ended = iter([0, 0, 1])
    monkeypatch.setattr(
        bench.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], next(ended))
    )
    assert bench.main(["--quick"]) == 1
    assert "Failed: auto." in capsys.readouterr().out


# The third part runs for real in test_auto.
@pytest.mark.sweep
def test_two_parts_of_a_quick_run_for_real():
    words = [sys.executable, "-m", "benchmarks", "capture", "models", "--quick"]
    words += ["--models", "MLP", "--backends", "ts", "ofi"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "right  MLP / ts / float32" in done.stdout
    assert "MLP: 100.0%" in done.stdout
