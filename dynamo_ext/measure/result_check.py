"""Whether each candidate's results are right: by eager, by float64, and on other inputs."""

import contextlib
import functools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from dynamo_ext.formatting import count, listing
from dynamo_ext.interruptions import failures
from dynamo_ext.measure import accuracy
from dynamo_ext.measure.accuracy import Results
from dynamo_ext.measure.candidate_run import CompiledCandidate, one_line
from dynamo_ext.measure.settings import Settings
from dynamo_ext.measure.state.snapshot import Snapshot
from dynamo_ext.measure.state.tensor_state import precision, shake
from dynamo_ext.measure.workload import Workload
from dynamo_ext.numerics import tolerance
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.common import FULL
from dynamo_ext.timing import first_run

_SHAKES, _FEWEST_SHAKES, _SHAKE_SECONDS = 8, 4, 10.0
_TIMES = (16, 1)
"""Roundings by which weights and inputs are moved: what a loop of some steps comes to, and one.
Both are tried whatever the clock says: one rounding alone seldom turns a ReLU."""

_LENIENT = 2
"""So many times as far from eager's as eager's own results move."""


class ResultCheck:
    """The references of one comparison, and the verdict on each candidate's results.

    ``eager`` are those of the code as it is; ``single`` those before ``--dtype``, where there is
    one. Float64's are computed when they are first asked for. ``notes`` say why there are none.
    """

    def __init__(self, workload: Workload, settings: Settings) -> None:
        self.eager: Results = {}
        self.single: Results | None = None
        self.notes: list[str] = []
        self._workload = workload
        self._settings = settings
        self._exact: Results | None = None

    def __call__(self, compiled: CompiledCandidate, found: Results) -> None:
        """Judge results; what is measured, and what is wrong, goes to the candidate."""
        bound = compiled.candidate.bound
        lowered = compiled.candidate.precision != FULL
        found, eager = self.with_the_same_names(found)
        if lowered or (bound and not accuracy.against(found, eager).within):
            judge = None if self._settings.check_on else bound
            exact, chosen = self.ask_float64(), compiled.candidate.precision
            measured = accuracy.lowered(found, eager, exact, chosen, judge)
            compiled.accuracy.append(measured)
            compiled.wrong = measured.detail
        else:
            self._as_eager(compiled, found, eager)
        if bound is not None and self._settings.check_on and not compiled.wrong:
            self._on_other_inputs(compiled, bound)

    def ask_float64(self) -> Results:
        """What the code gives in float64; nothing where it does not run in it."""
        if self._exact is None:
            self._exact = self._float64()
        return self._exact

    def with_the_same_names(self, outputs: Results) -> tuple[Results, Results]:
        """The results and eager's, both with the tensors that one of them alone changed.

        The other one has them as they were before the code ran. This is done where the change is
        rounding, which float64 changes by a tenth of it at most, as of a weight whose gradient is
        zero but for rounding. Else both are left as they are.
        """
        odd = outputs.keys() ^ self.eager.keys()
        kept = {name: self._workload.snapshot.content(name) for name in odd}
        before = {name: content for name, content in kept.items() if content is not None}
        if not odd or len(before) < len(odd) or not (exact := self.ask_float64()):
            return outputs, self.eager
        mine, theirs, right = (before | each for each in (outputs, self.eager, exact))
        for name in odd:
            three = mine[name], theirs[name], right[name]
            changes = [accuracy.distance(each.double(), before[name].double()) for each in three]
            rounding = changes[2] <= tolerance.SENSELESS * max(changes[:2]) < math.inf
            if not rounding or tolerance.farther(*three):
                return outputs, self.eager
        return mine, theirs

    def _as_eager(self, compiled: CompiledCandidate, outputs: Results, eager: Results) -> None:
        fp64 = self._settings.fp64
        judged = accuracy.against(outputs, eager, f"eager {self._settings.dtype}".strip())
        compiled.accuracy.append(judged)
        if self.single is not None:
            measured = accuracy.against(outputs, self.single, "eager float32")
            # Only the distance tells: the dtypes differ on purpose.
            compiled.accuracy.append(replace(measured, within=True, detail=""))
        exact = self.ask_float64() if fp64 or not judged.within else {}
        if not judged.within:
            odd = accuracy.no_better_than_eager(outputs, eager, exact)
            if odd and not fp64 and self._as_unsure(odd, outputs, eager):
                self.notes.append(
                    f"{compiled.candidate.name}: {listing(odd, 2)} differ from eager's by no "
                    "more than twice what eager's own move where weights and inputs change by a "
                    "few roundings."
                )
            elif odd:
                compiled.wrong = judged.detail
        if exact:
            measured = accuracy.against_float64(outputs, eager, exact)
            compiled.accuracy.append(measured)
            if fp64:
                compiled.wrong = compiled.wrong or measured.detail

    def _as_unsure(self, names: Sequence[str], outputs: Results, eager: Results) -> bool:
        """Whether eager's own results move about as far by rounding.

        Gradients jump where a ReLU or the maximum of a window turns, so that there are several
        right answers.
        """
        moves = self._farthest_moves
        return all(
            accuracy.distance(outputs.get(name), eager.get(name)) <= _LENIENT * moves.get(name, 0.0)
            for name in names
        )

    @functools.cached_property
    def _farthest_moves(self) -> dict[str, float]:
        """How far each of eager's results moves, at most, where all tensors change a little.

        Without those that move where nothing changes.
        """
        workload = self._workload
        moves: dict[str, float] = {}
        try:
            started = time.perf_counter()
            workload.restore(thorough=True)
            steady = {name for name, away in self._moved().items() if away == 0}
            for seed in range(_SHAKES):
                late = first_run.current().used_up() and seed >= _FEWEST_SHAKES
                slow = time.perf_counter() - started > _SHAKE_SECONDS and seed >= len(_TIMES)
                if late or slow:
                    break
                workload.restore(thorough=True)
                shake(workload.snapshot.tensors, seed, _TIMES[seed % len(_TIMES)])
                for name, away in self._moved().items():
                    if name in steady and away < math.inf:
                        moves[name] = max(moves.get(name, 0.0), away)
        except failures():  # code that checks its values says nothing then
            return {}
        finally:
            workload.restore(thorough=True)
        return moves

    def _moved(self) -> dict[str, float]:
        """How far another eager run is from the first."""
        self._workload.eager_call()()
        results = self._workload.results()
        return {
            name: accuracy.distance(results[name], self.eager[name])
            for name in results.keys() & self.eager.keys()
        }

    def _on_other_inputs(self, compiled: CompiledCandidate, bound: AccuracyBound) -> None:
        """Judge by the user's other inputs, all of them as one."""
        workload, inputs = self._workload, self._settings.check_on
        eager, exact = self._elsewhere
        found = []
        try:
            for given in inputs:
                with workload.on(given):
                    if compiled.call is not None:
                        compiled.call()
                        found.append(workload.results())
        except failures() as error:  # a failing candidate is a row with its reason
            compiled.failure = one_line(error)
            return
        chosen, together = compiled.candidate.precision, accuracy.joined(found)
        measured = accuracy.lowered(together, eager, exact, chosen, bound)
        if chosen == FULL and accuracy.against(together, eager).within:
            measured = replace(measured, within=True, detail="")
        reference = f"{measured.reference}, on {count(len(inputs), 'other input')}"
        compiled.accuracy.append(replace(measured, reference=reference))
        compiled.wrong = measured.detail

    @functools.cached_property
    def _elsewhere(self) -> tuple[Results, Results]:
        """Eager's and float64's results on the other inputs."""
        workload = self._workload
        plain, higher = [], []
        for given in self._settings.check_on:
            with workload.on(given):
                workload.eager_call()()
                plain.append(workload.results())
                higher.append(self._float64())
        return accuracy.joined(plain), accuracy.joined(higher)

    def _float64(self) -> Results:
        workload = self._workload
        workload.restore(thorough=True)
        try:
            with held_in(workload, "float64"):
                workload.eager_call()()
                return workload.results()
        except failures() as error:  # not every code runs in float64
            said = f"The code does not run in float64: {one_line(error)}"
            if said not in self.notes:
                self.notes.append(said)
            return {}
        finally:
            workload.restore(thorough=True)


@contextlib.contextmanager
def held_in(workload: Workload, dtype: str) -> Iterator[None]:
    """Hold the workload's tensors in another precision, and start each run from there."""
    if not dtype:
        yield
        return
    full = workload.snapshot
    with precision(full.tensors, getattr(torch, dtype)):
        workload.snapshot = Snapshot(workload.roots)
        try:
            yield
        finally:
            workload.restore(thorough=True)
            workload.snapshot = full
