"""``python -m dynamo_ext`` as typed."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from dynamo_ext.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import torch
import helper
net = torch.nn.Linear(4, 4).eval()
def forward():
    with torch.no_grad():
        return net(helper.x)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "helper.py").write_text("import torch\nx = torch.ones(2, 4)\n")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    # What the command adds goes again.
    monkeypatch.setattr("sys.path", [*sys.path])
    return path


def test_a_function_of_a_script_is_compared(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "table.json"
    words = ["compare", f"{script}:forward", "-b", "aot_eager", "-n", "6", "--save", str(saved)]
    assert main(words) == 0
    assert "aot_eager" in capsys.readouterr().out
    assert saved.exists()


def test_each_command_that_is_offered_for_code_that_writes_works(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(script.parent)
    script.write_text(f"{SCRIPT}\ndef saved():\n    torch.save(forward(), 'out.pt')\n")
    words = ["compare", f"{script}:saved", "-b", "aot_eager,eager", "-n", "6", "--train"]
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert f"writes {script.parent / 'out.pt'}, and" in shown
    offered = [shlex.split(line) for line in shown.splitlines() if line.startswith("    python")]
    assert [line[3:-1] for line in offered] == [words, words]
    for line in offered:
        assert main(line[3:]) == 0
        assert "out.pt" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "backends", "said"),
    [
        ("{}:nothing", "eager", "script.py has no function nothing."),
        ("{}.gone:forward", "eager", "is not a function of a script that is here."),
        ("{}", "eager", "Write it as script.py:function."),
        ("{}:forward", "onnxr", "Did you mean onnxrt"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(
    script: Path, capsys: pytest.CaptureFixture[str], target: str, backends: str, said: str
) -> None:
    assert main(["compare", target.format(script), "-b", backends]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert "Traceback" not in shown


def test_backends_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backends", "onnxrt"]) == 0
    assert "min_partition" in capsys.readouterr().out


def test_races_go_from_machine_to_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "races.json")
    assert main(["cache", "export", file]) == 0
    assert main(["cache", "import", file]) == 0
    assert "read from" in capsys.readouterr().out
    assert main(["cache"]) == 0
    assert "remembered" in capsys.readouterr().out
    assert main(["cache", "export"]) == 2
    assert "export FILE" in capsys.readouterr().err
