"""When blocks are divided: by what Dynamo says of them."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from dynamo_ext.capture.code.block import Block, SplitBlockError
from dynamo_ext.capture.code.function_code import Origin
from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog
from dynamo_ext.capture.listen.split_block import divide, note_division
from dynamo_ext.capture.torch_private import compile_metrics

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


def test_what_holds_no_graph_runs_plainly_without_a_word() -> None:
    turn, run = block("found.append(x)", is_loop_body=True), RunLog()
    with pytest.raises(SplitBlockError) as raised:
        turn.split_if_empty()
    raised.value.divide()
    frame = entry(turn)
    note_division(raised.value, frame, (), run)
    assert frame.fallbacks == []
    assert frame.reason == "nothing in it can be compiled"
