"""Running a frame's original code again."""

from __future__ import annotations

from typing import Any

from dynamo_ext.capture.listen.eager_replay import run_original


def test_original_code_runs_with_any_kind_of_argument() -> None:
    free = 5

    def f(a: int, /, b: int = 2, *rest: int, c: int, d: int = 4, **more: int) -> tuple[Any, ...]:
        return a, b, rest, c, d, more, free

    names = {"a": 1, "b": 7, "rest": (8, 9), "c": 3, "d": 4, "more": {"e": 6}, "free": free}
    assert run_original(f.__code__, names, globals()) == f(1, 7, 8, 9, c=3, d=4, e=6)


def test_original_code_sees_the_namespace() -> None:
    code = compile("global y\ny = x + 1", "<cell>", "exec")
    namespace: dict[str, Any] = {"x": 1}
    run_original(code, {}, namespace)
    assert namespace["y"] == 2
