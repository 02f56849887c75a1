"""A process within bounds of time and memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.bounds import Bounds, ending, watch

pytest.importorskip("psutil")


def finished(code: str, **bounds: float) -> tuple[str, int]:
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    *_, reason = watch(process, Bounds(**bounds))
    return reason, process.returncode


def test_a_process_that_hangs_is_ended():
    reason, code = finished("import time; time.sleep(60)", seconds=0.5)
    assert "no result after" in reason
    assert code == -9


def test_a_process_that_grows_is_ended():
    code = "x = b'1' * 2**28\nimport time; time.sleep(60)"
    assert "more than 0.1 GiB" in finished(code, memory=0.1)[0]


def test_how_a_process_ended_is_told():
    assert finished("pass") == ("", 0)
    assert "SIGSEGV" in ending(-11, "")
    assert ending(3, "why") == "The process ended with code 3: why"
