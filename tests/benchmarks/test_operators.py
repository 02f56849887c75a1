"""A sample of the operator sweep: every engine that is here, on the same operators."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from benchmarks import workers
from benchmarks.backends import ENGINES
from benchmarks.operators.__main__ import engines, sweep
from benchmarks.operators.row import Row
from tests.crosses import WHOLE

OPERATORS = 60 if WHOLE else 30
LEAST = dict.fromkeys(ENGINES, 20) | {"ts": 80, "ofi": 80, "onnxrt": 50, "xla": 50}
"""Of 60 operators: samples that an engine must take for the run to say anything about it."""


def row(verdict: str = "right", **facts: object) -> Row:
    return Row(
        **{
            "engine": "ts",
            "operator": "abs",
            "dtype": "float32",
            "sample": 0,
            "verdict": verdict,
            **facts,
        }
    )


@pytest.mark.parametrize("engine", list(LEAST))
@pytest.mark.timeout(600)
def test_no_engine_gives_a_wrong_result(engine: str, tmp_path: Path) -> None:
    versions, skipped = engines([engine])
    if engine in skipped:
        pytest.skip(skipped[engine])
    assert list(versions) == [engine]
    arguments = ["--samples=1", f"--subset={OPERATORS}"]
    rows = sweep(engine, arguments, state=tmp_path, resume=False, timeout=60.0)
    assert [each.to_dict() for each in rows if each.fault] == []
    verdicts = collections.Counter(each.verdict for each in rows)
    assert verdicts["right"] + verdicts["partly"] >= LEAST[engine] * OPERATORS / 60, verdicts


def test_a_case_that_ends_its_process_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = [
        ("edge: relu of NaN float32 0", workers.Ended("It hung.", late=True)),
        ("abs int64 2", workers.Ended("The process was ended by SIGSEGV.")),
    ]
    monkeypatch.setattr(workers, "rows", lambda *_, **__: iter(ends))
    found = sweep("ts", [], state=tmp_path, resume=False, timeout=60.0)
    assert found == [
        Row("ts", "edge: relu of NaN", "float32", 0, "timeout", "It hung."),
        Row("ts", "abs", "int64", 2, "crash", "The process was ended by SIGSEGV."),
    ]


def test_torchs_own_mistakes_are_no_faults() -> None:
    assert row("wrong", blame="engine").fault
    assert row("crash").fault
    assert not row("wrong", blame="torch").fault
    assert not row("failed").fault
