"""One program under one engine, in this process, and what is left of it where it is wrong."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

import dynamo_ext
from benchmarks.engine_facts import EngineRow, engine_facts
from benchmarks.random_programs import judge
from benchmarks.random_programs.program import TORCHS, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.random_programs.judge import Seen


@dataclass(frozen=True)
class Row(EngineRow):
    """A program under an engine.

    ``status`` is ``right``, ``wrong``, ``torch`` (wrong, and torch's own ``aot_eager`` is wrong in
    the same way under plain ``torch.compile``), ``unsure`` (eager's own result moves as far where
    its inputs change by a rounding), ``crash`` or ``timeout``. ``kind`` says what is wrong of it,
    ``reason`` how, ``call`` when. ``minimal`` is the function of what is left of a wrong program.
    ``layouts`` counts the calls that gave other strides than eager.
    """

    engine: str
    seed: int
    status: str
    kind: str = ""
    reason: str = ""
    call: int = 0
    layouts: int = 0
    minimal: str = ""


USUAL = Row("", -1, "")
"""Of a row is stored what is not as in this one."""


def check(program: Program, engine: str) -> Row:
    """Run a program's calls under an engine and compare each with eager and float64."""
    row = Row(engine, program.seed, "right")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, true = _eager(program), _true(program)
        torch._dynamo.reset()  # noqa: SLF001 - torch's own way to start afresh
        function = program.ready()
        compiled = _compiled(function.function, engine)
        layouts = 0
        for number, make in enumerate(function.calls):
            found = judge.seen(compiled, make())
            kind, reason = judge.difference(found, expected[number], true[number])
            layouts += judge.layouts_differ(found, expected[number])
            if kind:
                row = replace(row, status="wrong", kind=kind, reason=reason, call=number)
                break
        facts = engine_facts(compiled.report()) if hasattr(compiled, "report") else {}
        row = replace(row, layouts=layouts, **facts)
        if row.status == "wrong":
            row = replace(row, status=_whose(program, row, expected, true))
        return row


def minimised(program: Program, row: Row, seconds: float) -> Program:
    """What is left of a wrong program without what it is as wrong without."""
    deadline = time.monotonic() + seconds
    best = program
    progress = True
    while progress and time.monotonic() < deadline:
        progress = False
        for smaller in _smaller(best):
            if time.monotonic() > deadline:
                break
            if _as_wrong(smaller, row):
                best, progress = smaller, True
                break
    return best


def _smaller(program: Program) -> Sequence[Program]:
    """The program without a call, a result, or a statement."""
    calls = [program.calls[: n - 1] for n in range(len(program.calls), 1, -1)]
    calls += [program.calls[:n] + program.calls[n + 1 :] for n in range(len(program.calls))]
    found = [replace(program, calls=each) for each in calls if each]
    found += [program.without_statement(n) for n in reversed(range(len(program.body)))]
    if len(program.returned) > 1:
        found += [
            replace(program, returned=program.returned[:n] + program.returned[n + 1 :])
            for n in range(len(program.returned))
        ]
    return found


def _as_wrong(program: Program, row: Row) -> bool:
    try:
        found = check(program, row.engine)
    except Exception:  # noqa: BLE001 - what eager does not run is no smaller program
        return False
    return (found.status, found.kind) == (row.status, row.kind)


def _eager(program: Program, shaken: int = -1) -> list[Seen]:
    function = program.ready(shaken=shaken)
    return [judge.seen(function.function, make()) for make in function.calls]


def _true(program: Program) -> list[Seen | None]:
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        function = program.ready(wide=True)
        found = [judge.seen(function.function, make()) for make in function.calls]
    finally:
        torch.set_default_dtype(usual)
    return [None if each.error else each for each in found]


def _compiled(function: Callable[..., Any], engine: str) -> Any:
    if engine in TORCHS:
        return torch.compile(function, backend=engine)
    return dynamo_ext.optimize(engine, strict=True)(function)


def _whose(
    program: Program, row: Row, expected: Sequence[Seen], true: Sequence[Seen | None]
) -> str:
    """``torch`` where torch is wrong, too, ``unsure`` where eager moves as far, else ``wrong``."""
    for seed in range(judge.SHAKES):
        moved = _eager(program, shaken=seed)
        if judge.difference(moved[row.call], expected[row.call], true[row.call])[0] == row.kind:
            return "unsure"
    for control in TORCHS if row.engine not in TORCHS else ():
        torch._dynamo.reset()  # noqa: SLF001
        function = program.ready()
        compiled = torch.compile(function.function, backend=control)
        for number, make in enumerate(function.calls[: row.call + 1]):
            found = judge.seen(compiled, make())
            if judge.difference(found, expected[number], true[number])[0] == row.kind:
                return "torch"
    return "wrong"
