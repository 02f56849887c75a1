"""When blocks are divided: by what Dynamo says of them."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from dynamo_ext.capture.cells.block import Block, SplitBlockError
from dynamo_ext.capture.cells.function_code import Origin
from dynamo_ext.capture.cells.split_block import divide, divide_turn, note_division
from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog
from dynamo_ext.capture.torch_private import code_cache, compile_metrics

if TYPE_CHECKING:
    import weakref


def block(text: str, *, is_loop_body: bool = False) -> Block:
    origin = Origin(frozenset({"y"}), "<cell>", compile)  # type: ignore[arg-type]
    return Block(ast.parse(text).body, origin, is_loop_body=is_loop_body)


def entry(of: Block) -> FrameEntry:
    reference: weakref.ref[Any] = lambda: of.code  # type: ignore[assignment] # noqa: E731
    return FrameEntry("", "<module>", "<cell>", 1, reference)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What Dynamo's newest metrics say."""
    found = SimpleNamespace(
        fail_type="torch._dynamo.exc.Unsupported",
        fail_reason="a break",
        fail_user_frame_filename="<cell>",
        fail_user_frame_lineno=2,
    )
    monkeypatch.setattr(compile_metrics, "latest_metrics", lambda: found)
    return found


def test_what_was_given_up_is_divided(said: SimpleNamespace) -> None:
    loop = block("for i in x:\n    y = i")
    with pytest.raises(SplitBlockError) as raised:
        divide(entry(loop), None, ())
    assert raised.value.line == 2
    said.fail_user_frame_filename = "<another>"
    with pytest.raises(SplitBlockError) as raised:
        divide(entry(loop), None, ())
    assert raised.value.line is None


def test_what_led_there_from_the_cell_is_set_apart(said: SimpleNamespace) -> None:
    said.fail_user_frame_filename = "<another>"
    stack = [SimpleNamespace(filename=f, lineno=n) for f, n in (("<cell>", 1), ("<another>", 9))]
    found = block("y = f(x)\ny = y + 1")
    with pytest.raises(SplitBlockError):
        divide(entry(found), None, [SimpleNamespace(user_stack=stack)])
    said.fail_type = "RecursionError"
    with pytest.raises(SplitBlockError):
        divide(entry(found), None, [SimpleNamespace(user_stack=stack)])
    divide(entry(found), None, ())


def test_what_failed_otherwise_is_left_alone(said: SimpleNamespace) -> None:
    loop = block("for i in x:\n    y = i")
    divide(entry(loop), said, ())
    said.fail_reason = "… gb0039.html"
    divide(entry(loop), None, ())
    said.fail_type = "torch._dynamo.exc.BackendCompilerFailed"
    divide(entry(loop), None, ())
    said.fail_type = ""
    divide(entry(loop), None, ())
    divide(entry(block("y = 1")), None, ())


def test_an_empty_graph_before_a_loop_divides_too(said: SimpleNamespace) -> None:
    said.fail_type = ""
    stack = [SimpleNamespace(filename="<cell>", lineno=1)]
    found = block("print(x)\nfor i in x:\n    y = i")
    with pytest.raises(SplitBlockError):
        divide(entry(found), None, [SimpleNamespace(user_stack=stack)])


def test_a_turn_at_the_limit_runs_plainly_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    turn, run = block("y = f(x, name)", is_loop_body=True), RunLog(cell_file="<cell>")
    turn.has_graphs = True
    reasons = [f"0/{i}: G['name'] == '{i}'" for i in range(code_cache.recompile_limit())]
    monkeypatch.setattr(code_cache, "recompile_reasons", lambda *_: (0, reasons))
    frame: Any = SimpleNamespace(f_code=turn.code)
    last = reasons.pop()
    divide_turn(frame, None)
    reasons.append(last)
    with pytest.raises(SplitBlockError) as raised:
        divide_turn(frame, None)
    raised.value.divide()
    assert turn.plain
    told = entry(turn)
    note_division(raised.value, told, (), run)
    assert "recompile limit" in told.fallbacks[0].message
    assert told.fallbacks[0].cause == "recompile_limit"
    assert told.fallbacks[0].remedy.startswith("Keep a number that changes")


def test_what_holds_no_graph_runs_plainly_without_a_word() -> None:
    turn, run = block("found.append(x)", is_loop_body=True), RunLog()
    with pytest.raises(SplitBlockError) as raised:
        turn.split_if_empty()
    raised.value.divide()
    frame = entry(turn)
    note_division(raised.value, frame, (), run)
    assert frame.fallbacks == []
    assert frame.reason == "nothing in it can be compiled"


def test_the_breaks_at_a_condition_are_kept_with_the_block() -> None:
    loop, run = block("while y.sum() < 3:\n    y = y + 1"), RunLog(cell_file="<cell>")
    with pytest.raises(SplitBlockError) as raised:
        loop.split_at_break([SimpleNamespace(filename="<cell>", lineno=1)])
    raised.value.divide()
    stack = [SimpleNamespace(filename="<cell>", lineno=1, name="<module>")]
    told = SimpleNamespace(user_stack=stack, reason="Data-dependent branching")
    note_division(raised.value, entry(loop), [told], run)
    (found,) = loop.condition_breaks
    assert found.line is not None
    assert found.line.line == 1
    assert run.compiled == []
