"""A comparison whose candidates are measured one after the other, each in a fresh process.

The baseline is measured beside every candidate, so that a speedup compares two timings of one
process.
"""

import pickle
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dynamo_ext.capture import session
from dynamo_ext.errors import OptionError
from dynamo_ext.measure.candidates import Candidate
from dynamo_ext.measure.compare import compare_workload
from dynamo_ext.measure.per_graph import fastest
from dynamo_ext.measure.progress import Board, announce
from dynamo_ext.measure.remote.isolated_process import measure_alone
from dynamo_ext.measure.remote.serialization import pack, why_not
from dynamo_ext.measure.remote.worker import Answer
from dynamo_ext.measure.settings import Settings
from dynamo_ext.measure.workload import NOT_SENT, Workload
from dynamo_ext.records.comparison import CandidateResult, Comparison, GraphComparison, Outcome


def compare_anywhere(
    workload: Workload, candidates: list[Candidate], settings: Settings
) -> Comparison:
    """Measure in this process, or, with ``isolate``, each candidate in another one.

    What happens to that process is its candidate's row. One candidate may take ``first_run`` and
    ``budget`` seconds, and is stopped then.

    Raises ``OptionError`` where an argument cannot be sent, or a value that the cell cannot do
    without; and what the code itself raises when it runs plainly, in whichever process.
    """
    if not settings.isolate:
        return compare_workload(workload, candidates, settings)
    # Each of them is measured beside the baseline.
    announce(settings.announcement(settings.seconds(2 * len(candidates)) * settings.stages))
    return _Apart(workload, candidates, settings).run()


@dataclass
class _Apart:
    """One such comparison under way."""

    _workload: Workload
    _candidates: list[Candidate]
    _settings: Settings
    _answers: dict[str, Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._board = Board("", [each.name for each in self._candidates])

    def run(self) -> Comparison:
        started = time.perf_counter()
        interrupted = False
        try:
            self._one_by_one()
        except KeyboardInterrupt:
            interrupted = True
        raised = [each for each in self._answers.values() if each.trace]
        if raised and not self._any_record():
            # Where no process could run the code, that is not a candidate's failure.
            raise _error(raised[0], self._workload.left_out)
        return self._record(time.perf_counter() - started, interrupted=interrupted)

    def _one_by_one(self) -> None:
        for candidate, group in self._groups():
            name = candidate.name
            if candidate.compiler is None:
                found = candidate.availability
                self._answers[name] = Answer(None, found.reason, found.remedy)
                continue
            if (packed := self._pack(candidate, group)) is None:
                continue
            # Stays where an interrupt ends it.
            self._answers[name] = Answer(None, "Interrupted.", stopped=True)
            self._board.begin("elsewhere", name, "elsewhere")
            self._answers[name] = measure_alone(packed, self._seconds)
            self._ended(name)
            if self._answers[name].trace and not self._any_record():
                return

    def _ended(self, name: str) -> None:
        answer = self._answers[name]
        medians = [row.timing.median for row in answer.rows if row.name == name and row.timing]
        self._board.end(name, answer.reason, *medians)

    @property
    def _seconds(self) -> float:
        settings = self._settings
        return settings.compiling + settings.budget * settings.stages

    def _groups(self) -> Iterator[tuple[Candidate, list[Candidate]]]:
        """Each candidate, and those that its process needs: a baseline that is one of them."""
        name = self._settings.baseline
        base = [each for each in self._candidates if each.name == name]
        others = [each for each in self._candidates if each.name != name]
        if base and not others:
            yield base[0], base
        for each in others:
            yield each, [*base, each]

    def _pack(self, candidate: Candidate, group: list[Candidate]) -> bytes | None:
        workload, settings, namespace = self._workload, self._settings, self._workload.namespace
        try:
            return pack(workload, group, settings)
        except Exception:  # noqa: BLE001 - which value it is, is found out next
            for each in group:
                if reason := why_not(each, namespace):
                    said = f"{each.name} cannot be sent to another process ({reason})."
                    remedy = "Create what it needs inside the call."
                    self._answers[candidate.name] = Answer(None, said, remedy)
                    return None
            workload.leave_out(lambda value: why_not(value, namespace))
            return pack(workload, group, settings)

    def _any_record(self) -> bool:
        return any(each.record is not None for each in self._answers.values())

    def _record(self, seconds: float, *, interrupted: bool) -> Comparison:
        """The records of all processes as one.

        Each candidate's speedup and accuracy are those against the baseline in its own process. The
        baseline was measured in all of them; its row is the one of the middle median, as it was
        measured.
        """
        workload, settings, answers = self._workload, self._settings, self._answers
        records = [each.record for each in answers.values() if each.record is not None]
        base = _baseline(answers.values(), settings.baseline)
        rows = [
            base if c.name == settings.baseline else _row(c, answers.get(c.name))
            for c in self._candidates
        ]
        if base not in rows:
            rows.insert(0, base)
        own = {name: getattr(settings, name) for name in ("budget", "seed", "dtype", "train")}
        none = Comparison(workload.title, settings.baseline, (), **own)
        return replace(
            next(iter(records), none),
            candidates=tuple(rows),
            cell=workload.cell,
            graphs=_graphs(records),
            mix=None,
            rounds=len(base.timing.samples) if base.timing else 0,
            seconds=seconds,
            isolated=True,
            partial=interrupted or any(each.partial for each in records),
            interrupted=interrupted,
            notes=self._notes(records),
            device=", ".join(dict.fromkeys(each.device for each in records)),
            versions=session.versions(),
            busy_cores=max((each.busy_cores for each in records), default=0.0),
        )

    def _notes(self, records: Sequence[Comparison]) -> tuple[str, ...]:
        settings, left_out = self._settings, self._workload.left_out
        notes = [f"{name} was not sent ({reason})." for name, reason in left_out.items()]
        if len(records) > 1:
            notes.append(
                f"Each candidate was measured beside {settings.baseline} in a process of its own: "
                f"the row of {settings.baseline} is the middle one of {len(records)}."
            )
        if settings.per_graph and records:
            notes.append(
                "A mix needs all backends in one process: it is raced without isolation only."
            )
        said = [note for record in records for note in record.notes]
        return tuple(dict.fromkeys([*notes, *said]))


def _error(answer: Answer, left_out: Mapping[str, str]) -> Exception:
    """What the code itself raised in another process."""
    if why := left_out.get(answer.missing):
        message = f"The cell reads {answer.missing}, which cannot be sent to another process"
        return OptionError(f"{message} ({why}).", NOT_SENT)
    error: Exception = RuntimeError(answer.reason)
    if answer.raised:
        error = pickle.loads(answer.raised)  # noqa: S301 - from a worker that runs our code
    error.add_note(f"In another process:\n{answer.trace}")
    return error


def _row(candidate: Candidate, answer: Answer | None) -> CandidateResult:
    answer = answer or Answer(None, "Stopped before its turn.", stopped=True)
    for row in answer.rows:
        if row.name == candidate.name:
            return row
    outcome: Outcome = "unmeasured" if answer.stopped else "failed"
    if candidate.compiler is None:
        outcome = "unavailable"
    facts = candidate.name, candidate.backend, outcome, answer.reason, answer.remedy
    return CandidateResult(*facts, options=candidate.options)


def _baseline(answers: Iterable[Answer], name: str) -> CandidateResult:
    rows = [row for answer in answers for row in answer.rows if row.name == name]
    if timed := {row.timing.median: row for row in rows if row.timing is not None}:
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
