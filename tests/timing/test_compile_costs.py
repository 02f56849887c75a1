"""How long compiling a graph is expected to take."""

from __future__ import annotations

import pytest

from dynamo_ext.timing import compile_costs


@pytest.fixture(autouse=True)
def _nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_costs, "seen", {})


def test_a_first_graph_tells_of_loading_and_not_of_operations() -> None:
    """As measured: 10 s for three operations, then 1.3 s for 89."""
    assert compile_costs.note("inductor", 3, 10.0, whole=True) == pytest.approx(9.2, abs=0.1)
    assert compile_costs.expected("inductor", 89, whole=True) < 5
    assert compile_costs.note("inductor", 89, 1.3, whole=True) == 0
    compile_costs.note("inductor", 5, 8.0, whole=True)
    assert compile_costs.expected("inductor", 5, whole=True) == 8, "as long as the last one"


def test_what_compiling_took_here_is_expected_next_time() -> None:
    usual = compile_costs.expected("openvino", 100, whole=False)
    assert usual < 10
    compile_costs.note("openvino", 100, 2.0, whole=False)
    for _ in range(9):
        compile_costs.note("openvino", 100, 50.0, whole=False)
    assert compile_costs.expected("openvino", 100, whole=False) == pytest.approx(50, rel=0.1)
    assert compile_costs.expected("onnxrt", 100, whole=False) == pytest.approx(usual)
