"""What a library's code keeps from capture: together, with what helps from outside."""

from __future__ import annotations

import dataclasses
import re

import pytest

from dynamo_ext.records.capture import Frame, GraphBreak
from dynamo_ext.records.common import SourceLine
from dynamo_ext.records.report import Fallback
from dynamo_ext.widgets.report import breaks, code, fallbacks, static
from tests.widgets.conftest import at

FROM_OUTSIDE = "model.forward = dynamo_ext.optimize(…)(model.forward)"


def theirs(number: int, text: str) -> GraphBreak:
    inner = SourceLine("/lib/site-packages/transformers/utils.py", number, "generate", text)
    return GraphBreak("gb0170", "Data-dependent branching", "", (), "", at(6), (at(6), inner))


@pytest.fixture
def report(reports):
    cut = (theirs(10, "if x.any():"), theirs(20, "while x.any():"))
    frames = [Frame(f"{n}/0", name, "utils.py", n, "skipped") for n, name in enumerate("fg")]
    kept = [
        Fallback(
            "capture", "frame", each.id, "", "Unsupported", words, "", line=at(6), break_index=index
        )
        for index, (each, words) in enumerate(zip(frames, ("No number", "No loop"), strict=True))
    ]
    return dataclasses.replace(
        reports["mixed"], breaks=cut, frames=tuple(frames), fallbacks=tuple(kept)
    )


def test_breaks_in_a_library_are_one_fold_with_what_helps_from_outside(report, page):
    read = page(breaks.html(report)).text
    assert "transformers : 2 places of its code, called at line 6" in read
    assert "utils.py:10" in read
    assert FROM_OUTSIDE in read
    assert read.count("torch.where") == 0, "no line there is the user's to change"
    said = " ".join(breaks.text(report).split())
    assert said.count(FROM_OUTSIDE) == 1
    assert "torch.where" not in said


def test_ones_own_breaks_come_before_a_librarys(report, reports, page):
    both = dataclasses.replace(report, breaks=(*report.breaks, *reports["mixed"].breaks))
    read = page(breaks.html(both)).text
    assert read.index("It prints.") < read.index("transformers :")
    assert breaks.text(both).index("It prints.") < breaks.text(both).index("transformers:")


def test_the_calling_line_counts_the_places(report, page):
    said = "✂ The code of transformers that it calls splits the graph at 2 places."
    assert said in page(code.html(report)).text


def test_fallbacks_of_one_library_are_one_row_that_names_the_functions(report, page):
    made = fallbacks.html(report)
    assert made.count("<tr") == 2
    read = page(made).text
    assert "frames f (0/0) and g (1/0), line 6" in read
    assert "No number" in read
    assert "No loop" in read
    assert read.count(FROM_OUTSIDE) == fallbacks.text(report).count("model.forward =") == 1


def test_many_messages_of_one_library_are_counted_beyond_the_first(report, page):
    kept = [
        dataclasses.replace(report.fallbacks[0], message=f"{n} " + "why " * 2000) for n in range(40)
    ]
    many = dataclasses.replace(report, fallbacks=tuple(kept))
    made = static.html(many)
    assert len(made.encode()) < 150_000
    assert re.search(r"\d more messages", page(made).text)
    assert "32 more messages." in fallbacks.text(many)
    assert "more messages" not in static.page(many)
    nine = dataclasses.replace(report, fallbacks=tuple(kept[:9]))
    assert "1 more message." in fallbacks.text(nine)
    assert "1 more message." in page(fallbacks.html(nine, 8)).text


def test_the_key_names_graphs_in_sight_and_those_that_take_the_time(reports, page):
    mixed = reports["mixed"]
    far = SourceLine("/lib/site-packages/transformers/utils.py", 3, "f", "return x")
    operations = tuple(dataclasses.replace(op, line=far) for op in mixed.graphs[0].operations)
    hidden = dataclasses.replace(mixed.graphs[0], operations=operations)
    graphs = [
        dataclasses.replace(hidden, id=f"g{n}", run_seconds=1.0 if n == 7 else 0.001)
        for n in range(2, 20)
    ]
    read = page(code.html(dataclasses.replace(mixed, graphs=(*mixed.graphs, *graphs)))).text
    key = read[: read.index("x = torch.randn")]
    assert [name for name in ("g0", "g1", "g7") if f"{name}: " in key] == ["g0", "g1", "g7"]
    assert key.count(": onnxrt") == 3
    assert "and 17 more graphs" in key


def test_of_many_graphs_in_sight_the_key_names_the_largest(reports, page):
    mixed = reports["mixed"]
    graphs = [
        dataclasses.replace(mixed.graphs[0], id=f"g{n}", run_seconds=1.0 if n > 17 else 0.001)
        for n in range(20)
    ]
    key = page(code.html(dataclasses.replace(mixed, graphs=tuple(graphs)))).text
    assert "g18: " in key
    assert "g19: " in key
    assert "g11: " not in key


def test_lines_elsewhere_are_in_the_order_of_their_graphs(reports, page):
    mixed = reports["mixed"]
    placed = []
    for graph, file in zip(mixed.graphs, ("z.py", "a.py"), strict=True):
        line = SourceLine(f"/lib/{file}", 3, "f", "return x")
        operations = tuple(dataclasses.replace(op, line=line) for op in graph.operations)
        placed.append(dataclasses.replace(graph, operations=operations))
    read = page(code.html(dataclasses.replace(mixed, graphs=tuple(placed)))).text
    assert 0 < read.index("z.py:3 g0") < read.index("a.py:3 g1")
