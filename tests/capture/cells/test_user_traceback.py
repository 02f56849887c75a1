"""Tracebacks show the user's lines with the right numbers, and none of ours or torch's."""

from __future__ import annotations

import inspect
import re
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.capture.live import Live

HELPER = (
    "def helper(v):\n    w = v * 2\n    return w @ torch.ones(9, 9)\n"
    "def breaks(v):\n    print('a break')\n    return helper(v)"
)


def frames(error: BaseException | None) -> list[tuple[str, int | None]]:
    """Its lines in the notebook, without the line that IPython makes of the magic."""
    assert error is not None
    found = [f for f in traceback.extract_tb(error.__traceback__)
             if f.filename.startswith("<ipython-input")]  # fmt: skip
    return [(f.name, f.lineno) for f in found if "run_cell_magic" not in (f.line or "")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = x + 1\nz = y @ torch.ones(9, 9)", [("<module>", 3)]),
        ("y = x + 1\nz = helper(y)", [("<module>", 3), ("helper", 3)]),
        ("y = x + 1\n\n\nz = breaks(y)", [("<module>", 5), ("breaks", 6), ("helper", 3)]),
        ("print('a break')\ny = x + 1\nraise ValueError('mine')", [("<module>", 4)]),
        ("for i in range(2):\n    y = x + 1\n    z = missing", [("<module>", 4)]),
        ("y = x + 1\nz = (y\n     .nope())", [("<module>", 4)]),
        ("y = [x[i] for i in range(9)]", [("<module>", 2), ("<listcomp>", 2)]),
    ],
)
def test_only_the_users_lines_are_shown(
    cells: Live, text: str, expected: list[tuple[str, int]]
) -> None:
    cells.well(HELPER)
    for _ in range(2):
        ran, _ = cells.failed(text)
        found = frames(ran.error)
        assert [f for f in found if f[0] != "<listcomp>"] == [
            f for f in expected if f[0] != "<listcomp>"
        ]
        for foreign in ("_dynamo", "dynamo_ext", "eval_with_key", "site-packages/torch/fx"):
            assert foreign not in ran.shown
        line = text.split("\n")[expected[0][1] - 2].strip()
        assert line in ran.shown
        assert f"line {expected[0][1]}" in ran.shown


def test_the_cells_number_is_todays(cells: Live) -> None:
    text = "y = x + 1\nz = y @ torch.ones(9, 9)"
    first, _ = cells.failed(text)
    second, _ = cells.failed(text)
    count = cells.shell.execution_count
    assert f"Cell In[{count - 2}], line 3" in first.shown
    assert f"Cell In[{count - 1}], line 3" in second.shown


def test_a_group_is_trimmed(cells: Live) -> None:
    text = "y = x + 1\nraise ExceptionGroup('both', [ValueError('a'), TypeError('b')])"
    ran, _ = cells.failed(text)
    assert isinstance(ran.error, ExceptionGroup)
    assert frames(ran.error) == [("<module>", 3)]


def test_a_deep_recursion_is_the_users(cells: Live) -> None:
    cells.well("def deep(v, n):\n    return deep(v + 1, n + 1)")
    former = sys.getrecursionlimit()
    # IPython shows each frame, which takes longer the more modules there are.
    sys.setrecursionlimit(len(inspect.stack(0)) + 150)
    try:
        ran, _ = cells.failed("y = deep(x, 0)")
    finally:
        sys.setrecursionlimit(former)
    assert isinstance(ran.error, RecursionError)
    assert "_dynamo" not in ran.shown


@pytest.mark.parametrize("head", ["", "v", "v, *, k", "v, /, w, *rest, k, **more", "*, k"])
def test_a_resumed_function_is_shown_with_its_arguments(cells: Live, head: str) -> None:
    given = {"v": "x", "w": "x", "k": "k=x"}
    call = ", ".join(given[name] for name in re.findall(r"\b[vwk]\b", head))
    cells.well(f"def f({head}):\n    y = x * 2\n    print(float(y[0]))\n    return y.nothing")
    ran, _ = cells.failed(f"z = f({call})")
    shown = re.search(r"in f(\(.*\))", ran.shown)
    assert shown is not None
    # IPython itself puts keyword-only arguments before the star.
    assert sorted(re.findall(r"\w+", shown[1])) == sorted(re.findall(r"\w+", head))


STOP = """
import signal
def stop(what, name, number=signal.SIGINT):
    before = getattr(what, name)
    def stopping(*args, **kwargs):
        setattr(what, name, before)
        signal.raise_signal(number)
        return before(*args, **kwargs)
    setattr(what, name, stopping)
"""
SETTING = """
import signal
from torch._inductor.async_compile import AsyncCompile
from torch._subclasses import FakeTensorMode
class Late(Exception): pass
def late(*_): raise Late
signal.signal(signal.SIGUSR1, late)
def helper(v):
    print('a break')
    return v * 2
def wait(v):
    signal.raise_signal(signal.SIGINT)
    return v
"""
TRACING = "stop(FakeTensorMode, 'dispatch')"
LOADING = "stop(AsyncCompile, 'wait')"


@pytest.fixture
def stopped(cells: Live) -> Iterator[Live]:
    """A notebook with what sends a signal at the next call of a function of torch's."""
    before = signal.getsignal(signal.SIGUSR1)
    code: dict[str, Any] = {}
    exec(compile(STOP, torch.__file__, "exec"), code)
    cells.names["stop"] = code["stop"]
    cells.well(SETTING)
    yield cells
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))


@pytest.mark.usefixtures("_own_cache")
@pytest.mark.parametrize(
    ("backend", "text", "bound"),
    [
        ("eager", f"y = x + 1\n{TRACING}\nz = y * 2", "y"),
        ("eager", f"y = x + 1\n{TRACING}\nz = helper(y)", "y"),
        ("inductor", f"{LOADING}\ny = x + 1\nz = y", "y"),
        ("inductor", f"v = 1\ny = x + v\n{LOADING}\nw = y * 2\nz = w.sin() * 3", "vwy"),
        ("inductor", f"w = x.requires_grad_()\ny = (w * 3).sum()\n{LOADING}\ny.backward()", "wy"),
    ],
)
def test_an_interrupt_of_a_compiler_is_one_line_and_what_is_above_has_run(
    stopped: Live, backend: str, text: str, bound: str
) -> None:
    before = sys.gettrace()
    ran = stopped.run(f"%%dynamo -b {backend} --quiet\n{text}")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert ran.shown == "KeyboardInterrupt: stopped while the cell was being compiled."
    assert "".join(name for name in "vwyz" if name in stopped.names) == bound
    assert sys.gettrace() is before


@pytest.mark.usefixtures("_own_cache")
def test_the_cell_may_catch_an_interrupt_of_its_compiler(stopped: Live) -> None:
    stopped.well(LOADING)
    handled = "except KeyboardInterrupt:\n    w = y"
    stopped.well(f"%%dynamo -b inductor --quiet\ntry:\n    y = x + 1\n    z = y * 2\n{handled}")
    assert stopped.names["w"].tolist() == [1, 2, 3]


def test_a_time_limit_in_a_compiler_is_shown_with_its_handler(stopped: Live) -> None:
    stop = TRACING.replace(")", ", signal.SIGUSR1)")
    ran = stopped.run(f"%%dynamo -b eager --quiet\ny = x + 1\n{stop}\nz = y * 2")
    assert type(ran.error).__name__ == "Late"
    assert [name for name, _ in frames(ran.error)] == ["<module>", "late"]
    assert "site-packages" not in ran.shown


def test_an_interrupt_of_the_users_code_shows_its_line(stopped: Live) -> None:
    for line in ("%%dynamo -b inductor", "%%dynamo compare -b eager"):
        ran = stopped.run(f"{line} --quiet\ny = x + 1\nz = wait(y)")
        assert isinstance(ran.error, KeyboardInterrupt)
        assert [name for name, _ in frames(ran.error)] == ["<module>", "wait"]
        assert "dynamo_ext" not in ran.shown
