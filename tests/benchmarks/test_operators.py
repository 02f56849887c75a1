"""A sample of the operator sweep: every engine that is here, on the same operators."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from benchmarks.backends import ENGINES
from benchmarks.operators.__main__ import engines, sweep
from tests.crosses import WHOLE

OPERATORS = 60 if WHOLE else 30
LEAST = dict.fromkeys(ENGINES, 20) | {"ts": 80, "ofi": 80, "onnxrt": 50, "xla": 50}
"""Of 60 operators: samples that an engine must take for the run to say anything about it."""


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
