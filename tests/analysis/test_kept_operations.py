from __future__ import annotations

import dataclasses

from dynamo_ext.analysis.advice import advise
from dynamo_ext.analysis.kept_operations import clauses
from dynamo_ext.records.common import SourceLine
from dynamo_ext.records.graph import Graph, KeptOperation, Operation
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.report import fallbacks, graphs

WORDS = "`linear` of line 7 stays in float32: error 0.03 without it, 0.002 with it"
LINE = SourceLine("ipy.py", 7, "cell", in_cell=True)
LINEAR = Operation("call_function", "p", "torch.nn.functional.linear", "(s,)", "{}", line=LINE)


def report(*kept: KeptOperation, calls: int = 1) -> Report:
    graph = Graph(
        "g0", "0/0", "onnxrt:int8", (LINEAR,), "", 0.1, compiled_now=True, calls=calls,
        run_seconds=0.1, kept=kept,
    )  # fmt: skip
    return Report("optimize", "onnxrt:int8", "cell", None, 1.0, 0.1, graphs=(graph,))


KEPT = report(KeptOperation("p", 0.03, 0.002))


def test_an_operation_is_named_by_its_line() -> None:
    assert clauses(KEPT) == (WORDS,)


def test_what_has_no_error_is_wrong() -> None:
    said = "`linear` of line 7 stays in float32: a result is wrong without it"
    assert clauses(report(KeptOperation("p", None, 0.0))) == (said,)


def test_equal_graphs_are_named_once_and_those_not_called_not_at_all() -> None:
    twice = dataclasses.replace(KEPT, graphs=KEPT.graphs * 2)
    assert clauses(twice) == (WORDS,)
    assert clauses(report(KeptOperation("p", 0.03, 0.002), calls=0)) == ()


def test_torch_s_own_code_is_named_by_the_module() -> None:
    layer = dataclasses.replace(LINEAR, line=None, modules=(("model.head", "Head"),))
    graph = dataclasses.replace(KEPT.graphs[0], operations=(layer,))
    [said] = clauses(dataclasses.replace(KEPT, graphs=(graph,)))
    assert said.startswith("`linear` of model.head stays in float32")


def test_an_operation_that_the_record_lacks() -> None:
    [said] = clauses(report(KeptOperation("q", 0.03, 0.002)))
    assert said.startswith("`q` stays in float32")


def test_it_is_advice_that_asks_for_nothing() -> None:
    [kept] = [each for each in advise(KEPT) if each.topic == "kept"]
    assert kept.problem == WORDS
    assert kept.weight < 0.1
    many = [dataclasses.replace(LINEAR, name=f"p{n}", line=None) for n in range(5)]
    held = tuple(KeptOperation(each.name, 0.1 * n, 0.0) for n, each in enumerate(many))
    graph = dataclasses.replace(KEPT.graphs[0], operations=tuple(many), kept=held)
    [kept] = [
        each for each in advise(dataclasses.replace(KEPT, graphs=(graph,))) if each.topic == "kept"
    ]
    assert kept.problem.endswith("; 2 more")


def test_the_report_shows_it() -> None:
    assert fallbacks.text(KEPT).split() == f"{WORDS}.".split()
    assert "<code>linear</code> of line 7 stays in float32" in fallbacks.html(KEPT)
    assert graphs.describe(KEPT, KEPT.graphs[0]) == (
        "1 operation in onnxrt:int8, 1 of them in float32"
    )
    assert fallbacks.html(report()) == ""
