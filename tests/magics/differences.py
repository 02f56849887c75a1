"""In what two sessions of one case differ, one plain and one under the magic."""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from IPython.core.error import UsageError

from tests.corpus.case import Case
from tests.corpus.same import Likeness, is_report
from tests.corpus.text import FOREIGN, Cleaner
from tests.magics.shell import Session


def differences(case: Case, plain: Session, magic: Session, *, engine: bool = False) -> list[str]:
    """Everything in which two sessions of one case differ, in words."""
    left, right = Cleaner(case, magic=plain.magic), Cleaner(case, magic=magic.magic)
    like = Likeness(left, right, engine=engine)
    like.assume(plain.shell, magic.shell)
    like.assume(plain.shell.user_module, magic.shell.user_module)
    like.assume(plain.namespace, magic.namespace)
    like.namespaces(plain.namespace, magic.namespace)
    for number, (a, b) in enumerate(zip(plain.cells, magic.cells, strict=True), 1):
        here = f"cell {number}"
        like.left = replace(left, unread=0 if a.ran else number)
        like.right = replace(right, unread=0 if b.ran else number)
        like.equal(f"{here} success", a.success, b.success)
        like.compare(f"{here} result", a.result, b.result)
        like.compare(f"{here} exception", a.error, b.error)
        outputs = [
            _outputs(case, cleaner, cell.outputs)
            for cleaner, cell in ((like.left, a), (like.right, b))
        ]
        if case.clock:
            outputs = [[o for o in some if o != ("stream", "stdout", "")] for some in outputs]
        like.equal(f"{here} outputs", *outputs)
        plainly = [out for out in a.outputs if FOREIGN.search(str(out))]
        for out in b.outputs:
            if not plainly and not _is_report(out) and FOREIGN.search(str(out)):
                like.note(here, "an output shows foreign frames", "", str(out))
    for name, value in plain.state.items():
        like.equal(name, value, magic.state[name])
    return like.differences


def differently_joined(plain: Session, magic: Session) -> list[str]:
    """Which two names autograd joins in another way, in words: the gradient of one at the other."""
    found, other = _joined(plain.namespace), _joined(magic.namespace)
    return [
        f"the gradient of {later} at {earlier}: plain {gradient}, magic {other[key]}"
        for key, gradient in found.items()
        # A compiled graph is used up where one in eager keeps nothing that could be.
        if key in other and not _alike(gradient, other[key])
        for later, earlier in [key]
    ]


def _joined(namespace: dict[str, Any]) -> dict[tuple[str, str], torch.Tensor | None]:
    """Gradients of each name at each other one, unless the graph between them is used up."""
    named = {
        name: value
        for name, value in namespace.items()
        if isinstance(value, torch.Tensor) and value.requires_grad and not name.startswith("_")
    }
    found = {}
    for later, earlier in itertools.permutations(named, 2):
        goal = named[later].abs().sum()
        with contextlib.suppress(RuntimeError):
            (found[later, earlier],) = torch.autograd.grad(
                goal, named[earlier], retain_graph=True, allow_unused=True
            )
    return found


def _alike(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return torch.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True)


def _outputs(case: Case, cleaner: Cleaner, outputs: list[Any]) -> list[Any]:
    cleaned = [cleaner.output(out) for out in outputs if not _is_report(out)]
    if case.graphs is None and not _about_tensors(case):
        return cleaned
    return [
        (*out[:-1], tuple(frame for frame in out[-1] if frame.in_cell))
        if out[0] == "error"
        else out
        for out in cleaned
    ]


def _about_tensors(case: Case) -> bool:
    """Whether library frames may differ: a compiled graph does not go through torch's own."""
    return "import torch" in case.cells[0]


def _is_report(output: tuple[Any, ...]) -> bool:
    return output[0] == "display" and is_report(output[1])


def refusal(case: Case, plain: Session, magic: Session) -> list[str]:
    """What is wrong with how the magic refused the last cell."""
    before = Case(case.name, case.cells[:-1])
    for session in (plain, magic):  # IPython keeps no input history of an empty plain cell
        session.namespace.pop(f"_i{len(case.cells)}", None)
    cut = [Session(s.shell, s.magic, s.cells[:-1]) for s in (plain, magic)]
    found = []
    last = magic.cells[-1]
    if not isinstance(last.error, UsageError):
        found.append(f"raised {last.error!r}, no UsageError")
    sentence = last.text.strip()
    if "\n" in sentence or not re.search(case.refused, sentence, re.IGNORECASE):
        found.append(f"said {last.outputs!r}")
    if [out[0] for out in last.outputs] != ["stream"]:
        found.append(f"showed more than a sentence: {last.outputs!r}")
    names = _bound(case.cells[-1]) & set(magic.namespace)
    if names:
        found.append(f"bound {names} all the same")
    for name in _bound(case.cells[-1]):
        plain.namespace.pop(name, None)
    return found + differences(before, *cut)


def _bound(text: str) -> set[str]:
    nodes = ast.walk(ast.parse(text))
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def skip_where_python_is_older(case: Case) -> None:
    if sys.version_info < case.python:
        pytest.skip(f"needs Python {case.python[0]}.{case.python[1]}")
