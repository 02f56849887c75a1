"""A cell under ``%%dynamo`` does what the plain cell does: the corpus, run both ways."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace
from typing import Any

import pytest
from IPython.core.error import UsageError

from tests.corpus import THEMES, Case
from tests.corpus.case import MAGIC_LINE
from tests.corpus.same import Likeness, is_report
from tests.corpus.text import FOREIGN, Cleaner
from tests.crosses import share
from tests.magics.faulty_magics import install_faithful, install_wrapping
from tests.magics.shell import Session, run_case

ALL = [pytest.param(case, id=f"{theme}: {case.name}") for theme, cases in THEMES.items()
       for case in cases]  # fmt: skip
SAMPLE = [param for param in ALL if str(param.id).startswith(("names", "errors", "refused"))]
LESSONS = [param for param in ALL if str(param.id).startswith("lessons")]
LESSONS_ON_INDUCTOR = [param for param in LESSONS if param.values[0].inductor]  # type: ignore[attr-defined]
PROFILED = [param for param in ALL if str(param.id).startswith(("training", "tensors"))]


@pytest.fixture(autouse=True, scope="module")
def torch_is_loaded() -> None:
    """Import what is slow before any clock or warning filter of a case runs."""
    import torch._dynamo  # noqa: F401

    # Inductor raises it at its first graph, for the process.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 2000))


@pytest.fixture(autouse=True)
def clean_compiler() -> Any:
    """No case finds another's compiled code."""
    import torch

    yield
    torch._dynamo.reset()


def test_corpus_is_large_and_names_are_unique() -> None:
    names = [(theme, case.name) for theme, cases in THEMES.items() for case in cases]
    assert len(names) == len(set(names))
    assert len(names) >= 220


@pytest.mark.parametrize("case", ALL)
def test_cell_is_a_cell(case: Case) -> None:
    _skip_where_python_is_older(case)
    plain = run_case(case, magic=False)
    assert _raised(plain) == case.raises, "the corpus misjudges the plain cell"
    magic = run_case(case, magic=True)
    found = _refusal(case, plain, magic) if case.refused else differences(case, plain, magic)
    if case.graphs is not None:
        graphs = magic.graphs
        counts = [graph.operation_count for graph in graphs]
        if len(graphs) != case.graphs:
            found.append(f"report: {len(graphs)} graphs {counts}, expected {case.graphs}")
        if case.operations is not None and sum(counts) != case.operations:
            found.append(f"report: {counts} operations, expected {case.operations}")
    if case.known_difference:
        assert found, f"no longer differs: {case.known_difference}"
    else:
        assert not found, "\n".join(found)


@pytest.mark.sweep
@pytest.mark.parametrize("case", share(LESSONS, 0, 3))
def test_a_lesson_is_a_lesson_on_onnxrt(case: Case) -> None:
    _is_the_same_on("onnxrt", case)


@pytest.mark.sweep
@pytest.mark.parametrize("case", LESSONS_ON_INDUCTOR)
def test_a_lesson_is_a_lesson_on_inductor(case: Case) -> None:
    _is_the_same_on("inductor", case)


def _is_the_same_on(engine: str, case: Case) -> None:
    plain = run_case(case, magic=False)
    magic = run_case(case, magic=True, line=f"%%dynamo -b {engine} --quiet")
    found = differences(case, plain, magic, engine=True)
    assert bool(found) is bool(case.known_difference), "\n".join(found)


@pytest.mark.parametrize("case", PROFILED)
def test_a_cell_whose_operations_are_timed_is_a_cell(case: Case) -> None:
    _skip_where_python_is_older(case)
    plain = run_case(case, magic=False)
    magic = run_case(case, magic=True, line=f"{MAGIC_LINE} --profile")
    found = _refusal(case, plain, magic) if case.refused else differences(case, plain, magic)
    assert bool(found) is bool(case.known_difference), "\n".join(found)


@pytest.mark.parametrize("case", SAMPLE)
def test_comparison_is_fair(case: Case) -> None:
    """A magic that only runs the cell passes."""
    _skip_where_python_is_older(case)
    plain = run_case(case, magic=False)
    magic = run_case(case, magic=True, install=install_faithful)
    found = _refusal(case, plain, magic) if case.refused else differences(case, plain, magic)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("theme", "name", "differs_in"),
    [
        ("names", "missing name", "traceback|outputs"),
        ("names", "augmented of an earlier cell", "exception"),
        ("names", "delete", "exception|names"),
        ("functions", "function sees a rebinding in its own cell", "value"),
        ("functions", "lambda", "__qualname__"),
        ("functions", "closure", "__qualname__"),
        ("classes", "class looks", "__qualname__"),
        ("errors", "half-way", "names"),
        ("library", "locals and globals", "value"),
        ("library", "star import", "exception"),
        ("notebook", "show an int", "_oh"),
        ("tensors", "statement and display", "_oh"),
    ],
)
def test_comparison_bites(theme: str, name: str, differs_in: str) -> None:
    """A magic that wraps the cell in a function fails, and the words say in what."""
    case = next(case for case in THEMES[theme] if case.name == name)
    plain = run_case(case, magic=False)
    found = differences(case, plain, run_case(case, magic=True, install=install_wrapping))
    assert re.search(differs_in, "\n".join(found))


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


def _raised(session: Session) -> str:
    return " ".join(type(cell.error).__name__ for cell in session.cells if cell.error)


def _refusal(case: Case, plain: Session, magic: Session) -> list[str]:
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


def _skip_where_python_is_older(case: Case) -> None:
    if sys.version_info < case.python:
        pytest.skip(f"needs Python {case.python[0]}.{case.python[1]}")
