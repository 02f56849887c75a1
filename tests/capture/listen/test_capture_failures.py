"""Frames that Dynamo gave up: outcome, break, fallback and what helps."""

from __future__ import annotations

import linecache
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from dynamo_ext.analysis.break_location import ON_PURPOSE
from dynamo_ext.capture.listen.capture_failures import LIMIT, graph_breaks, note_failure
from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog
from tests.capture.live import live

TEXT = "def f(x):\n    y = x\n    for _ in range(3):\n        print(y)\n    return y\n"
UNSUPPORTED = (
    "Failed to trace builtin operator\n"
    "  Explanation: Dynamo does not know how to trace builtin operator `print`\n"
    "  Hint: Avoid calling `print`.\n\n"
    "  Developer debug context: x\n\n"
    " For more details about this graph break, please visit: "
    "https://meta-pytorch.github.io/compile-graph-break-site/gb/{page}.html"
)


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> FrameEntry:
    lines = TEXT.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, "<given up>", (len(TEXT), None, lines, "<given up>"))
    return FrameEntry("0/0", "f", "<given up>", 1, weakref.ref(note_failure.__code__))


def metrics(kind: str, reason: str, line: int = 4, file: str = "<given up>") -> Any:
    return SimpleNamespace(
        fail_type=kind,
        fail_reason=reason,
        fail_user_frame_filename=file,
        fail_user_frame_lineno=line,
    )


def test_a_break_in_a_loop_says_that_its_body_can_be_a_function(entry: FrameEntry) -> None:
    reason = UNSUPPORTED.format(page="gb0059")
    note_failure(entry, metrics("torch._dynamo.exc.Unsupported", reason), RunLog())
    assert entry.outcome == "skipped"
    assert [b.registry_id for b in entry.breaks] == ["gb0059"]
    (fallback,) = entry.fallbacks
    assert (fallback.stage, fallback.exception) == ("capture", "Unsupported")
    assert fallback.line is not None
    assert fallback.line.code == "print(y)"
    assert "put the loop's body into a function" in fallback.remedy
    assert fallback.cause == "loop"


@pytest.mark.parametrize("leave", ["break", "return t", "continue"])
def test_a_condition_that_ends_a_loop_is_not_to_be_moved_out(
    monkeypatch: pytest.MonkeyPatch, leave: str
) -> None:
    text = f"def f(t):\n    for k in t:\n        t, stop = g(t)\n        if stop:\n            {leave}\n"
    monkeypatch.setitem(linecache.cache, "<leaves>", (0, None, text.splitlines(True), "<leaves>"))
    left = FrameEntry("0/0", "f", "<leaves>", 1, weakref.ref(note_failure.__code__))
    reason = UNSUPPORTED.format(page="gb0170")
    note_failure(left, metrics("torch._dynamo.exc.Unsupported", reason, 4, "<leaves>"), RunLog())
    assert "may end early" in left.fallbacks[0].remedy
    assert left.fallbacks[0].cause == "loop"
    assert "put the loop's body" not in left.fallbacks[0].remedy


@pytest.mark.parametrize(("line", "file"), [(2, "<given up>"), (4, "<another>")])
def test_elsewhere_torchs_own_hint_is_given(entry: FrameEntry, line: int, file: str) -> None:
    reason = UNSUPPORTED.format(page="gb0059")
    note_failure(entry, metrics("torch._dynamo.exc.Unsupported", reason, line, file), RunLog())
    assert entry.fallbacks[0].remedy == "Avoid calling `print`."
    assert entry.fallbacks[0].cause == ""


def test_the_limit_asks_what_changes(entry: FrameEntry) -> None:
    reason = UNSUPPORTED.format(page=LIMIT)
    note_failure(entry, metrics("torch._dynamo.exc.Unsupported", reason), RunLog())
    assert entry.fallbacks[0].remedy.startswith("Keep a number that changes")
    assert entry.fallbacks[0].cause == "recompile_limit"


def test_a_failing_backend_is_a_failure(entry: FrameEntry) -> None:
    found = metrics("torch._dynamo.exc.BackendCompilerFailed", "backend='x' raised: boom", file="")
    note_failure(entry, found, RunLog())
    assert entry.outcome == "failed"
    assert entry.breaks == []
    assert "try another one" in entry.fallbacks[0].remedy


def test_breaks_have_the_users_line() -> None:
    stack = [SimpleNamespace(filename="<cell>", lineno=7, name="<module>")]
    reason = SimpleNamespace(user_stack=stack, reason=UNSUPPORTED.format(page="gb0059"))
    (found,) = graph_breaks([reason], RunLog(cell_file="<cell>"))
    assert found.line is not None
    assert (found.line.line, found.line.in_cell) == (7, True)
    assert found.reason == "Failed to trace builtin operator"


BUILD = "model = torch.nn.Linear(4, 2)\nopt = torch.optim.SGD(model.parameters(), lr=0.1)"
TRAIN = """loss = (weight * x).sum()
loss.backward()
opt.step()"""


def test_what_torch_itself_breaks_is_at_the_users_line_that_led_there() -> None:
    weight = "weight = torch.ones(3, requires_grad=True)\nx = torch.ones(3)"
    with live(f"{weight}\nopt = torch.optim.SGD([weight], lr=0.1)") as cells:
        report = cells.report(TRAIN)
    (own,) = [found for found in report.breaks if found.registry_id == ON_PURPOSE]
    assert "optimizer.py" in own.stack[-1].file
    assert own.line is not None
    assert (own.line.in_cell, own.line.code) == (True, "opt.step()")


def test_a_generator_that_is_handed_on_is_told_at_its_own_line() -> None:
    with live() as cells:
        report = cells.report(f"{BUILD}\ny = model(torch.ones(2, 4))")
    (own,) = [found for found in report.fallbacks if "generator" in found.message]
    assert own.line is not None
    assert own.line.in_cell
    assert own.line.code == BUILD.splitlines()[1]
