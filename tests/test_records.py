"""Records go to JSON and back, are frozen, and keep nothing alive."""

from __future__ import annotations

import dataclasses
import gc
import json
import weakref
from typing import Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.errors import RecordFormatError
from dynamo_ext.records.graph import Graph, Operation, Partition
from dynamo_ext.records.report import SCHEMA_VERSION, Report


@pytest.fixture
def report() -> Report:
    """A report with something in most of its parts."""
    torch._dynamo.reset()

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x * n
        print("a break")  # noqa: T201
        return y.relu()

    fast = dynamo_ext.optimize("eager")(f)
    for n in (2, 3):
        fast(torch.ones(2, 3), n)
    found = fast.report()
    assert found.graphs
    assert found.breaks
    assert found.guards
    assert found.recompiles
    return found


def test_json_and_back(report: Report) -> None:
    text = json.dumps(report.to_dict())
    assert Report.from_dict(json.loads(text)) == report


def test_a_report_is_hashable_and_frozen(report: Report) -> None:
    assert hash(report) == hash(Report.from_dict(report.to_dict()))
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.backend = "other"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.graphs[0].calls = 7  # type: ignore[misc]


def test_it_holds_plain_values_only(report: Report) -> None:
    def plain(value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                assert type(key) is str
                plain(inner)
        elif isinstance(value, (list, tuple)):
            for inner in value:
                plain(inner)
        else:
            assert type(value) in (str, int, float, bool, type(None)), repr(value)

    plain(report.to_dict())


@pytest.mark.parametrize("schema", [None, 0, SCHEMA_VERSION + 1, str(SCHEMA_VERSION)])
def test_another_schema_is_refused(report: Report, schema: object) -> None:
    record = {**report.to_dict(), "schema": schema}
    with pytest.raises(RecordFormatError, match=f"schema .*{SCHEMA_VERSION}"):
        Report.from_dict(record)


@pytest.mark.parametrize("record", [{}, [], None, "text", 3])
def test_what_is_no_record_is_refused(record: Any) -> None:
    with pytest.raises(RecordFormatError):
        Report.from_dict(record)


@pytest.mark.parametrize(
    "damage",
    [
        {"graphs": "none"},
        {"graphs": [{"id": "g0"}]},
        {"mode": "sometimes"},
        {"frames": [{"outcome": "lost"}]},
    ],
)
def test_a_damaged_record_is_refused_in_one_line(report: Report, damage: dict[str, Any]) -> None:
    with pytest.raises(RecordFormatError) as caught:
        Report.from_dict({**report.to_dict(), **damage})
    assert "\n" not in str(caught.value)


def test_a_missing_field_is_refused(report: Report) -> None:
    record = report.to_dict()
    del record["backend"]
    with pytest.raises(RecordFormatError, match="backend"):
        Report.from_dict(record)


def test_counts_are_derived_from_the_rows() -> None:
    rows = [Operation(code, "n", "t", "", "") for code in
            ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")]  # fmt: skip
    parts = (
        Partition("p0", "onnxrt", 3),
        Partition("p1", "eager", 2),
        Partition("p2", "onnxrt", 1),
    )
    graph = Graph("g0", "0/0", "onnxrt", tuple(rows), "", 0.0, True, 1, 0.0, parts)
    assert graph.operation_count == 3
    assert graph.ran_in_engine == 4


def times_two(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x) * 2


@pytest.mark.usefixtures("older_objects_frozen")
def test_a_report_keeps_no_tensor_and_no_module_alive() -> None:
    torch._dynamo.reset()

    def made() -> tuple[Report, list[weakref.ref[Any]]]:
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
        x = torch.ones(2, 3)
        with dynamo_ext.optimize("eager") as session:
            times_two(model, x)
        return session.report, [weakref.ref(model), weakref.ref(x), weakref.ref(model[0].weight)]

    found, refs = made()
    assert found.graphs
    torch._dynamo.reset()
    gc.collect()
    assert [ref() for ref in refs] == [None, None, None]
    assert found.graphs[0].operation_count > 0


@pytest.mark.usefixtures("older_objects_frozen")
def test_the_last_report_keeps_nothing_alive_either() -> None:
    torch._dynamo.reset()
    model = torch.nn.Linear(3, 3)
    fast = dynamo_ext.optimize("eager")(model)
    fast(torch.ones(2, 3))
    assert dynamo_ext.last_report().title == "Linear"
    ref = weakref.ref(model)
    del model, fast
    torch._dynamo.reset()
    gc.collect()
    assert ref() is None
