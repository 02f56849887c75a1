"""A cell under ``%%dynamo`` does what the plain cell does: the corpus, run both ways."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from dynamo_ext.backends import registry
from tests.corpus import THEMES, Case
from tests.corpus.case import MAGIC_LINE
from tests.crosses import crossed, share
from tests.magics.differences import differences, refusal, skip_where_python_is_older
from tests.magics.shell import Session, run_case
from tests.needs import needs_backend

ALL = [pytest.param(case, id=f"{theme}: {case.name}") for theme, cases in THEMES.items()
       for case in cases]  # fmt: skip
LESSONS = [param for param in ALL if str(param.id).startswith("lessons")]
LESSONS_ON_INDUCTOR = [param for param in LESSONS if param.values[0].inductor]  # type: ignore[attr-defined]
GRADIENTS = [param for param in ALL if str(param.id).startswith("gradients")]
ENGINES = ("aot_eager", "inductor", "onnxrt", "openvino", "ts", "tvm", "xla")
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
    skip_where_python_is_older(case)
    plain = run_case(case, magic=False)
    assert _raised(plain) == case.raises, "the corpus misjudges the plain cell"
    magic = run_case(case, magic=True)
    found = refusal(case, plain, magic) if case.refused else differences(case, plain, magic)
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
    found = _differences("onnxrt", case)
    assert bool(found) is bool(case.known_difference), "\n".join(found)


@pytest.mark.sweep
@pytest.mark.parametrize("case", LESSONS_ON_INDUCTOR)
def test_a_lesson_is_a_lesson_on_inductor(case: Case) -> None:
    found = _differences("inductor", case)
    assert bool(found) is bool(case.known_difference), "\n".join(found)


@pytest.mark.sweep
@pytest.mark.parametrize(("engine", "case"), crossed(ENGINES, GRADIENTS, 4))
def test_gradients_are_plain_ones_on(engine: str, case: Case) -> None:
    needs_backend(engine)
    partitions = "min_partition" in {option.name for option in registry.get(engine).options}
    found = _differences(engine, case, "--opt min_partition=1" if partitions else "")
    assert not found, "\n".join(found)


def _differences(engine: str, case: Case, more: str = "") -> list[str]:
    plain = run_case(case, magic=False)
    magic = run_case(case, magic=True, line=f"%%dynamo -b {engine} {more} --quiet")
    return differences(case, plain, magic, engine=True)


@pytest.mark.parametrize("case", PROFILED)
def test_a_cell_whose_operations_are_timed_is_a_cell(case: Case) -> None:
    skip_where_python_is_older(case)
    plain = run_case(case, magic=False)
    magic = run_case(case, magic=True, line=f"{MAGIC_LINE} --profile")
    found = refusal(case, plain, magic) if case.refused else differences(case, plain, magic)
    assert bool(found) is bool(case.known_difference), "\n".join(found)


def _raised(session: Session) -> str:
    return " ".join(type(cell.error).__name__ for cell in session.cells if cell.error)
