"""A ``RunLog`` and the entries it touched, as a frozen ``Report``."""

import dataclasses
from collections.abc import Iterable
from typing import TypeVar

from dynamo_ext.backends.journal import Journal, subject_of
from dynamo_ext.capture.code.source_lines import users_line
from dynamo_ext.capture.events import capture_disabled
from dynamo_ext.capture.listen.run_log import FrameEntry, GraphEntry, RunLog
from dynamo_ext.capture.report.distinct_breaks import DistinctBreaks
from dynamo_ext.capture.report.functions import users_functions
from dynamo_ext.records.capture import Frame, GraphBreak, Guard
from dynamo_ext.records.common import SourceLine
from dynamo_ext.records.graph import Graph, Operation
from dynamo_ext.records.report import Fallback, Report

Placed = TypeVar("Placed", Fallback, GraphBreak, Guard, Operation)


def build_report(run: RunLog, facts: Report, standing: Iterable[FrameEntry] = ()) -> Report:
    """The report of a run; ``facts`` has what the runner knows.

    ``standing`` are frames of earlier runs, of this cell or another, that still run eagerly.
    """
    graphs = list(run.calls)
    met = (graph.frame for graph in graphs)
    frames = list(dict.fromkeys([*run.compiled, *met, *run.eager_frames.values(), *standing]))
    names = {graph: f"g{index}" for index, graph in enumerate(graphs)}
    told = [found for frame in frames for found in frame.breaks]
    breaks = DistinctBreaks([*told, *run.condition_breaks])
    # A record of another cell's run has that cell's lines marked as "in the cell".
    file = facts.cell.file if facts.cell is not None else ""
    records = tuple(_break(each, file) for each in breaks.records)
    made = tuple(_graph(g, run, names[g], breaks, file) for g in graphs)
    return dataclasses.replace(
        facts,
        frames=tuple(_frame(f, run, names) for f in frames),
        graphs=made,
        breaks=records,
        guards=_all_placed((guard for frame in frames for guard in frame.guards), file),
        recompiles=run.all_recompiles(),
        fallbacks=_all_placed(_fallbacks(frames, run, names, breaks), file),
        paired_seconds=run.paired_seconds,
        turns=tuple(run.turns.values()),
        profile_seconds=sum(calls.profile_seconds for calls in run.calls.values()),
        profile_busy_cores=max((calls.busy_cores for calls in run.calls.values()), default=0.0),
        race_seconds=sum(_raced(graph, run) for graph in graphs),
        functions=users_functions(made, records),
    )


def _break(graph_break: GraphBreak, file: str) -> GraphBreak:
    stack = tuple(_line(each, file) for each in graph_break.stack)
    if stack == graph_break.stack:
        return _placed(graph_break, file)
    return dataclasses.replace(graph_break, line=users_line(stack), stack=stack)


def _all_placed(records: Iterable[Placed], file: str) -> tuple[Placed, ...]:
    return tuple(_placed(each, file) for each in records)


def _placed(record: Placed, file: str) -> Placed:
    line = record.line and _line(record.line, file)
    return record if line is record.line else dataclasses.replace(record, line=line)


def _line(line: SourceLine, file: str) -> SourceLine:
    strange = line.in_cell and line.file != file
    return dataclasses.replace(line, in_cell=False) if strange else line


def _raced(entry: GraphEntry, run: RunLog) -> float:
    return entry.journal.race_seconds - run.calls[entry].raced_before


def _frame(entry: FrameEntry, run: RunLog, names: dict[GraphEntry, str]) -> Frame:
    outcome = entry.outcome
    if outcome == "compiled" and entry not in run.compiled:
        outcome = "reused"
    live = (ref() for ref in entry.graphs)
    return Frame(
        id=entry.id,
        name=entry.name,
        file=entry.file,
        line=entry.line,
        outcome=outcome,  # type: ignore[arg-type]
        graphs=tuple(names[g] for g in live if g is not None and g in names),
        guards=len(entry.guards),
        compile_seconds=entry.seconds if entry in run.compiled else 0.0,
        reason=entry.reason,
        in_cell=entry.file == run.cell_file,
        turn=entry.turn,
    )


def _graph(entry: GraphEntry, run: RunLog, name: str, breaks: DistinctBreaks, file: str) -> Graph:
    calls = run.calls[entry]
    operations = _all_placed(entry.operations, file)
    if taken := calls.operation_seconds:
        operations = tuple(
            dataclasses.replace(op, seconds=taken.get(op.name, 0.0)) for op in operations
        )
    return Graph(
        id=name,
        frame=entry.frame.id,
        backend=entry.backend,
        operations=operations,
        source=entry.source,
        compile_seconds=entry.compile_seconds,
        compiled_now=entry.frame in run.compiled,
        calls=calls.count,
        run_seconds=max(calls.seconds - _raced(entry, run), 0.0),
        partitions=tuple(entry.journal.partitions.values()),
        normalised=entry.journal.normalised,
        ended_by=breaks.index(entry.ended_by),
        contest=entry.journal.contest,
        folded=entry.journal.folded,
        untimed=calls.untimed,
        backward_seconds=calls.backward_seconds,
        backward_untimed=calls.backward_untimed,
        pairs=entry.pairs,
        faults=entry.faults.sentence,
        is_trained=entry.is_trained,
        unpaired=entry.unpaired,
        kept=tuple(entry.journal.kept.values()),
        lowered=_lowered(entry.journal),
    )


def _lowered(journal: Journal) -> int | None:
    """Operations of products in the lower precision, over all engines; ``None`` where unknown."""
    parts = journal.partitions.values()
    # A graph under autocast is lowered before it is cut.
    whole = not parts or "" in journal.lowered
    names = [""] if whole else [part.name for part in parts if part.engine != "eager"]
    found = [journal.lowered.get(name) for name in names]
    return sum(each for each in found if each is not None) if None not in found else None


def _fallbacks(
    frames: Iterable[FrameEntry], run: RunLog, names: dict[GraphEntry, str], breaks: DistinctBreaks
) -> Iterable[Fallback]:
    yield from (*capture_disabled.lacking(), *run.fallbacks)
    for frame in frames:
        index = breaks.index(frame.given_up_by)
        for found in frame.fallbacks:
            yield found if index is None else dataclasses.replace(found, break_index=index)
    for graph, name in names.items():
        journal = graph.journal
        for key, found in journal.fallbacks.items():
            before = run.calls[graph].fallbacks_before.get(key, 0)
            fresh = found.count - before
            if found.stage == "run" and fresh == 0:
                continue
            subject = subject_of(name, found.subject)
            yield dataclasses.replace(found, subject=subject, count=max(fresh, 1))
