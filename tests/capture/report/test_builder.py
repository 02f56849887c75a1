"""A run and its entries as a report."""

from __future__ import annotations

from dynamo_ext.backends.journal import Journal
from dynamo_ext.capture.listen.run_log import FrameEntry, GraphCalls, GraphEntry, RunLog
from dynamo_ext.capture.report.builder import build_report
from dynamo_ext.records.capture import GraphBreak, Recompile
from dynamo_ext.records.common import SourceLine
from dynamo_ext.records.report import Fallback, Report

FACTS = Report("optimize", "eager", "a test", None, 1.0, 0.0)


def frame(name: str = "f", **kwargs: object) -> FrameEntry:
    return FrameEntry("0/0", name, "a.py", 1, lambda: None, **kwargs)  # type: ignore[arg-type]


def broken(line: int) -> GraphBreak:
    return GraphBreak("gb1", "why", "", (), "", SourceLine("a.py", line))


def graph(owner: FrameEntry, journal: Journal, ended_by: GraphBreak | None = None) -> GraphEntry:
    return GraphEntry(owner, "eager", (), "", ended_by, journal, mutates=False)


def test_equal_breaks_are_one_with_a_count_and_graphs_point_at_it() -> None:
    run = RunLog()
    owner = frame(breaks=[broken(1), broken(2), broken(2)])
    run.compiled.append(owner)
    run.calls[graph(owner, Journal("j"), broken(2))] = GraphCalls(1, 0.5)
    report = build_report(run, FACTS)
    assert [b.count for b in report.breaks] == [1, 2]
    assert report.graphs[0].ended_by == 1


def test_standing_frames_are_reported_once() -> None:
    skipped = frame("g", outcome="skipped", breaks=[broken(3)])
    run = RunLog()
    assert [f.outcome for f in build_report(run, FACTS, [skipped]).frames] == ["skipped"]
    run.compiled.append(skipped)
    report = build_report(run, FACTS, [skipped])
    assert [f.name for f in report.frames] == ["g"]
    assert [b.count for b in report.breaks] == [1]


def test_frame_fallbacks_are_kept() -> None:
    found = Fallback("capture", "frame", "0/0", "", "ValueError", "no", "")
    run = RunLog()
    run.compiled.append(frame(outcome="failed", fallbacks=[found]))
    assert build_report(run, FACTS).fallbacks == (found,)


def test_objects_of_two_types_are_two_recompiles() -> None:
    run = RunLog()
    for kind in ("A", "B", "A"):
        found = Recompile("0/1", "f", "guard", "x", "", "", is_object=True, actual_type=kind)
        run.add_recompile(found)
    recompiles = build_report(run, FACTS).recompiles
    assert [(r.actual_type, r.count) for r in recompiles] == [("A", 2), ("B", 1)]
