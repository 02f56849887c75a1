"""Equal graph breaks once, with their count."""

from __future__ import annotations

from dynamo_ext.capture.report.distinct_breaks import DistinctBreaks
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.common import SourceLine

CALL = SourceLine("cell", 3, "<module>", "r = f(x)", in_cell=True)
AGAIN = SourceLine("cell", 5, "<module>", "s = f(x)", in_cell=True)
INSIDE = SourceLine("other", 9, "f", "if x.sum() < 0:")


def told(line: SourceLine, *stack: SourceLine, page: str = "") -> GraphBreak:
    return GraphBreak(page, "Data-dependent branching", "", (), "", line, stack)


def test_a_break_told_of_the_cell_and_of_its_function_is_one() -> None:
    outer, inner = told(CALL, CALL, INSIDE, page="gb0170"), told(INSIDE, INSIDE)
    for order in ([outer, inner], [inner, outer]):
        found = DistinctBreaks(order)
        (only,) = found.records
        assert (only.registry_id, only.line, only.count) == ("gb0170", CALL, 1)
        assert found.index(outer) == found.index(inner) == 0


def test_two_lines_of_the_cell_are_two_breaks() -> None:
    first, second = told(CALL, CALL, INSIDE), told(AGAIN, AGAIN, INSIDE)
    found = DistinctBreaks([first, second, told(INSIDE, INSIDE)])
    assert [b.line for b in found.records] == [CALL, AGAIN]
    assert [b.count for b in found.records] == [1, 1]
    assert (found.index(first), found.index(second)) == (0, 1)


def test_the_telling_with_a_page_is_kept() -> None:
    found = DistinctBreaks([told(INSIDE, INSIDE), told(INSIDE, INSIDE, page="gb0170")])
    assert [(b.registry_id, b.count) for b in found.records] == [("gb0170", 2)]


def test_functions_on_the_way_tell_of_the_same_break() -> None:
    way = SourceLine("other", 5, "g", "return f(x)")
    tellings = [told(CALL, CALL, way, INSIDE), told(INSIDE, way, INSIDE), told(INSIDE, INSIDE)]
    assert [b.count for b in DistinctBreaks(tellings).records] == [1]
    assert [b.count for b in DistinctBreaks([*tellings, tellings[-1]]).records] == [2]


def test_a_line_may_break_by_itself_and_in_what_it_calls() -> None:
    found = DistinctBreaks([told(CALL, CALL, INSIDE), told(CALL, CALL)])
    assert [b.stack for b in found.records] == [(CALL, INSIDE), (CALL,)]


def test_what_is_not_there_has_no_place() -> None:
    found = DistinctBreaks([])
    assert (found.records, found.index(None), found.index(told(CALL, CALL))) == ((), None, None)
