"""A cell under ``%%dynamo`` does what the plain cell does: the corpus, run both ways."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from dynamo_ext.backends import registry
from tests.corpus import THEMES, Case
from tests.corpus.case import MAGIC_LINE
from tests.crosses import crossed, share
from tests.magics.differences import (
    differences,
    differently_joined,
    refusal,
    skip_where_python_is_older,
)
from tests.magics.shell import Session, run_case
from tests.needs import needs_backend

ALL = [pytest.param(case, id=f"{theme}: {case.name}") for theme, cases in THEMES.items()
       for case in cases]  # fmt: skip
LESSONS = [param for param in ALL if str(param.id).startswith("lessons")]
LESSONS_ON_INDUCTOR = [param for param in LESSONS if param.values[0].inductor]  # type: ignore[attr-defined]
GRADIENTS = [param for param in ALL if str(param.id).startswith("gradients")]
ENGINES = ("aot_eager", "inductor", "onnxrt", "openvino", "ts", "tvm", "xla")
JOINED = [param for param in ALL if str(param.id).startswith(("gradients", "training", "tensors"))]
PROFILED = [param for param in ALL if str(param.id).startswith(("training", "tensors"))]


def _on_engines(params: list[Any], every: int) -> list[Any]:
    """Each engine with its share of the cases."""
    return [
        pytest.param(engine, *param.values, id=f"{engine}, {param.id}")
        for engine, param in crossed(ENGINES, params, every)
    ]


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
    found = _differences(case, "onnxrt")
    assert bool(found) is bool(case.known_difference), "\n".join(found)


@pytest.mark.sweep
@pytest.mark.parametrize("case", LESSONS_ON_INDUCTOR)
def test_a_lesson_is_a_lesson_on_inductor(case: Case) -> None:
    found = _differences(case, "inductor")
    assert bool(found) is bool(case.known_difference), "\n".join(found)


@pytest.mark.sweep
@pytest.mark.parametrize(("engine", "case"), _on_engines(GRADIENTS, 4))
def test_gradients_are_plain_ones_on(engine: str, case: Case) -> None:
    needs_backend(engine)
    found = _differences(case, engine, _whatever_it_takes(engine))
    assert not found, "\n".join(found)


@pytest.mark.sweep
@pytest.mark.parametrize(("engine", "case"), _on_engines(JOINED, 6))
def test_autograd_joins_names_as_in_plain_cells_on(engine: str, case: Case) -> None:
    skip_where_python_is_older(case)
    needs_backend(engine)
    found = differently_joined(*_sessions(case, engine, _whatever_it_takes(engine)))
    assert not found, "\n".join(found)


def _differences(case: Case, engine: str, options: str = "") -> list[str]:
    return differences(case, *_sessions(case, engine, options), engine=True)


def _sessions(case: Case, engine: str, options: str = "") -> tuple[Session, Session]:
    line = f"%%dynamo -b {engine} {options} --quiet"
    return run_case(case, magic=False), run_case(case, magic=True, line=line)


def _whatever_it_takes(engine: str) -> str:
    """The option with which an engine gets single operations, too."""
    partitions = "min_partition" in {option.name for option in registry.get(engine).options}
    return "--opt min_partition=1" if partitions else ""


@pytest.mark.parametrize("case", PROFILED)
def test_a_cell_whose_operations_are_timed_is_a_cell(case: Case) -> None:
    skip_where_python_is_older(case)
    plain = run_case(case, magic=False)
    magic = run_case(case, magic=True, line=f"{MAGIC_LINE} --profile")
    found = refusal(case, plain, magic) if case.refused else differences(case, plain, magic)
    assert bool(found) is bool(case.known_difference), "\n".join(found)


def _raised(session: Session) -> str:
    return " ".join(type(cell.error).__name__ for cell in session.cells if cell.error)
