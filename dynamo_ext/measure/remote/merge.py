"""Records of one candidate each, made in several processes, as one comparison."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dynamo_ext.capture import session
from dynamo_ext.measure.per_graph import fastest
from dynamo_ext.measure.remote.worker import Answer
from dynamo_ext.records.comparison import CandidateResult, Comparison, GraphComparison, Outcome

if TYPE_CHECKING:
    from dynamo_ext.measure.candidates import Candidate
    from dynamo_ext.measure.remote.tasks import Task
    from dynamo_ext.measure.settings import Settings


def merged(
    task: Task,
    candidates: Sequence[Candidate],
    settings: Settings,
    answers: Mapping[str, Answer],
    *,
    interrupted: bool,
) -> Comparison:
    """One comparison.

    Each candidate's speedup and accuracy are those against the baseline in its own process. The
    baseline was measured in all of them; its row is the one of the middle median, as it was
    measured.
    """
    records = [each.record for each in answers.values() if each.record is not None]
    base = _baseline(answers.values(), settings.baseline)
    rows = [
        base if c.name == settings.baseline else _row(c, answers.get(c.name)) for c in candidates
    ]
    if base not in rows:
        rows.insert(0, base)
    first = records[0] if records else None
    return Comparison(
        title=first.title if first else task.title,
        baseline=settings.baseline,
        candidates=tuple(rows),
        cell=task.cell,
        graphs=_graphs(records),
        rounds=len(base.timing.samples) if base.timing else 0,
        budget=settings.budget,
        seed=settings.seed,
        dtype=settings.dtype,
        train=settings.train,
        isolated=True,
        partial=interrupted or any(each.partial for each in records),
        interrupted=interrupted,
        notes=_notes(task, records, settings),
        device=", ".join(dict.fromkeys(each.device for each in records)),
        threads=first.threads if first else 0,
        versions=session.versions(),
    )


def _row(candidate: Candidate, answer: Answer | None) -> CandidateResult:
    answer = answer or Answer(None, "Stopped before its turn.", stopped=True)
    for row in answer.record.candidates if answer.record is not None else ():
        if row.name == candidate.name:
            return replace(row, worker=answer.worker)
    outcome: Outcome = "unmeasured" if answer.stopped else "failed"
    if candidate.compiler is None and not answer.worker:
        outcome = "unavailable"
    return CandidateResult(
        name=candidate.name,
        backend=candidate.backend,
        outcome=outcome,
        reason=answer.reason,
        remedy=answer.remedy,
        options=candidate.options,
        worker=answer.worker,
        ended=answer.ended,
    )


def _baseline(answers: Iterable[Answer], name: str) -> CandidateResult:
    rows = [
        replace(row, worker=answer.worker)
        for answer in answers
        if answer.record is not None
        for row in answer.record.candidates
        if row.name == name
    ]
    timed = {row.timing.median: row for row in rows if row.timing is not None}
    if timed:
        return timed[statistics.median_low(timed)]
    return rows[0] if rows else CandidateResult(name, "", "unmeasured", "No process measured it.")


def _graphs(records: Sequence[Comparison]) -> tuple[GraphComparison, ...]:
    """The same graph of several processes as one, with the times of all."""
    found: dict[tuple[str, str], GraphComparison] = {}
    for graph in (graph for record in records for graph in record.graphs):
        known = found.setdefault((graph.graph, graph.source), graph)
        names = {each.backend for each in known.times}
        times = (*known.times, *(t for t in graph.times if t.backend not in names))
        best = fastest(times) if known.fastest else ""
        found[graph.graph, graph.source] = replace(known, times=times, fastest=best)
    return tuple(found.values())


def _notes(task: Task, records: Sequence[Comparison], settings: Settings) -> tuple[str, ...]:
    notes = [f"{name} was not sent ({reason})." for name, reason in task.left_out.items()]
    if len(records) > 1:
        notes.append(
            f"Each candidate was measured beside {settings.baseline} in a process of its own: "
            f"the row of {settings.baseline} is the middle one of {len(records)}."
        )
    if settings.per_graph and records:
        notes.append("A mix needs all backends in one process: it is raced without isolation only.")
    said = [note for record in records for note in record.notes]
    return tuple(dict.fromkeys([*notes, *said]))
