"""Schedules by search: MetaSchedule's space and strategy, and a database on disk.

The space of a function is what the rules for LLVM span over its loops; an evolutionary search
asks a cost model which of them to build and time next (arXiv:2205.13603). The fastest of many that
were timed once is in part the luckiest, so the best few and the schedule by rule are timed again in
turn, and the fastest of these stays, if it makes the whole partition faster, too.
"""

from __future__ import annotations

import contextlib
import math
import operator
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import (
    tvm_measure,
    tvm_schedule,
    tvm_session,
    tvm_target,
    tvm_together,
)
from dynamo_ext.backends.tvm_database import Database, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch.fx import GraphModule

BATCH = 8
"""Candidates that the search gives at a time."""

POPULATION = 128
"""Schedules that the cost model looks at for each batch: a quarter of TVM's own default, for a
notebook's user waits for it."""

FINALISTS = 3
"""Schedules that are timed again at the end of a search, in turn with the one by rule."""

FINAL_ROUNDS = 5

FINAL_SHARE = 0.15
"""Of a function's time, what is kept for that."""

TOGETHER_SHARE = 0.1
"""Of a graph's time, what is kept for trying its functions' schedules together."""

BUDGET = 120.0
"""Seconds of searching for a graph, where nothing else is said."""

NEGLIGIBLE = 0.02
"""Share of a graph's time below which a function is left as the rules have it."""


class SearchError(RuntimeError):
    """The installed TVM cannot search."""


@dataclass(frozen=True)
class Progress:
    """How far the search for a graph has come.

    Attributes
    ----------
    task
        The function that is searched for.
    position, tasks
        Which one of how many.
    trials, most_trials
        Schedules measured for it, and how many there are to be.
    rule, best
        Microseconds of the schedule by rule, and of the best one; zero where none ran.
    elapsed, budget
        Seconds since the search for the graph began, and how many it has.
    finished
        Whether this is the last word about the graph.
    """

    task: str
    position: int
    tasks: int
    trials: int
    most_trials: int
    rule: float
    best: float
    elapsed: float
    budget: float
    finished: bool = False


def show(progress: Progress) -> None:
    """Rewrite one line of the terminal or cell; say nothing where nobody reads it."""
    stream = sys.stderr
    if not (stream.isatty() or "ipykernel" in sys.modules):
        return
    text = (
        f"tvm_meta_schedule: {progress.position} of {progress.tasks} ({progress.task}), "
        f"{progress.trials}/{progress.most_trials} trials, best {progress.best:.0f} µs "
        f"(by rule {progress.rule:.0f} µs), {progress.elapsed:.0f} of {progress.budget:.0f} s"
    )
    stream.write(f"\r{text:<110}" + ("\n" if progress.finished else ""))
    stream.flush()


on_progress: Callable[[Progress], None] = show
"""Called after each measurement; a front end may put its own in this place."""


@dataclass
class Task:
    """A function of a graph that wants a schedule, and how often it was measured."""

    name: str
    function: Any
    schedule: Any
    seconds: float = 0.0
    best: float = 0.0
    trials: int = 0


def session(graph: GraphModule, options: Mapping[str, Any]) -> tvm_session.Session:
    """Compile a partition with the best schedules known, after searching for what is new.

    Parameters
    ----------
    graph
        A partition of fixed shapes.
    options
        ``tune``, ``trials``, ``budget``, ``database``, ``cost_model`` and ``tracker``.

    Raises
    ------
    tvm_measure.TrackerError
        Where ``tracker`` names one that cannot be reached, or that lends nothing.
    KeyboardInterrupt
        Where the search is interrupted. What was measured is on record, so that the next compile
        goes on from there.
    """

    def build(program: tvm_session.Program) -> Any:
        database = Database(str(options.get("database", "")))

        def best(function: Any) -> Any:
            found = database.schedule(function)
            return tvm_schedule.schedule(function) if found is None else found

        if not options.get("tune", True):
            return program.built(best)
        end = time.monotonic() + float(options.get("budget", BUDGET))
        tasks = tune(program.functions, database, options)
        choices = [
            tvm_together.Choice(
                task.function, task.schedule, best(task.function), task.seconds, task.best
            )
            for task in tasks
        ]
        return tvm_together.best_build(program, choices, best, database, end)

    return tvm_session.Session(graph, build)


def tune(functions: list[Any], database: Database, options: Mapping[str, Any]) -> list[Task]:
    """Search schedules for the functions that have no record.

    Parameters
    ----------
    functions
        PrimFuncs without schedules.
    database
        Where records are, and go.
    options
        ``trials``, ``budget``, ``cost_model`` and ``tracker``.

    Returns
    -------
    list
        The functions that were searched for, the longest first.
    """
    start = time.monotonic()
    # The end of the time is for trying out together what was found.
    budget = float(options.get("budget", BUDGET)) * (1 - TOGETHER_SHARE)
    most = int(options.get("trials", 64))
    tasks = _tasks(functions, database)
    if not tasks or most < 1:
        return []
    if tvm_target.proof()["serialise"]:
        # The search would end this process.
        raise SearchError(tvm_target.proof()["serialise"])
    _quiet_scheduler()
    searched: list[Task] = []
    with tvm_measure.Worker(str(options.get("tracker", ""))) as worker:
        for task in tasks:
            if time.monotonic() - start < budget:
                task.seconds = task.best = _timed(worker, task)
        total = sum(task.seconds for task in tasks)
        tasks.sort(key=lambda task: -task.seconds)
        worth = [t for t in tasks if t.seconds > NEGLIGIBLE * total]
        for task in tasks:
            if task.seconds and task not in worth:
                database.add(task.function, task.schedule, task.seconds)
        for position, task in enumerate(worth):
            left = budget - (time.monotonic() - start)
            if left <= 0:
                break

            def tell(task: Task = task, position: int = position) -> None:
                on_progress(
                    Progress(
                        task=task.name,
                        position=position + 1,
                        tasks=len(worth),
                        trials=task.trials,
                        most_trials=most,
                        rule=task.seconds * 1e6,
                        best=task.best * 1e6,
                        elapsed=time.monotonic() - start,
                        budget=budget,
                        finished=position + 1 == len(worth) and task.trials >= most,
                    )
                )

            # What is left is shared by the functions that are left, by how long they take.
            share = left * task.seconds / sum(t.seconds for t in worth[position:])
            database.add(task.function, task.schedule, task.seconds)
            task.trials = 1
            tell()
            search = Search(task, database, worker, str(options.get("cost_model", "xgboost")))
            now = time.monotonic()
            search.run(most, now + share * (1 - FINAL_SHARE), tell)
            each = (time.monotonic() - now) / max(task.trials - 1, 1)
            search.settle(now + share, each)
            searched.append(task)
        return searched


def _tasks(functions: list[Any], database: Database) -> list[Task]:
    """What is new, each once however often it occurs."""
    new = {key_of(function): function for function in functions if not database.has(function)}
    tasks = []
    for function in new.values():
        made = tvm_schedule.schedule(function)
        tasks.append(Task("+".join(tvm_schedule.names(function)), function, made))
    return tasks


def _timed(worker: tvm_measure.Worker, task: Task) -> float:
    """Seconds of the schedule by rule, or zero where it does not run."""
    try:
        return worker.seconds(task.function, task.schedule)
    except tvm_measure.MeasureError:
        return 0.0


def _quiet_scheduler() -> None:
    """Keep TVM from clearing a cell's output when it has something to tell."""
    name = "s_tir.meta_schedule.using_ipython"
    tvm_target.package().register_global_func(name, lambda: False, override=True)


class Search:
    """An evolutionary search of one function's space.

    Parameters
    ----------
    task
        What is searched for.
    database
        Where each measured schedule goes; the search reads its population from it.
    worker
        Who measures.
    cost_model
        ``xgboost`` or ``random``.
    """

    def __init__(
        self, task: Task, database: Database, worker: tvm_measure.Worker, cost_model: str
    ) -> None:
        from tvm.s_tir import meta_schedule as ms

        self._task = task
        self._database = database
        self._worker = worker
        self._schedules = ms
        self._fastest: list[tuple[float, Any]] = []
        # The search draws its population from here; what stays is in the other one.
        self._records = ms.database.MemoryDatabase()
        module = tvm_schedule.fresh(task.function).mod
        self._workload = self._records.commit_workload(module)
        space = ms.space_generator.PostOrderApply(
            sch_rules="llvm", postprocs="llvm", mutator_probs="llvm"
        )
        strategy = ms.search_strategy.EvolutionarySearch(
            population_size=POPULATION, init_min_unmeasured=BATCH, genetic_num_iters=3
        )
        if cost_model == "random":
            self._model = ms.cost_model.RandomModel()
        else:
            self._model = ms.cost_model.XGBModel(
                num_warmup_samples=2 * BATCH, num_tuning_cores=tvm_target.threads()
            )
        # Its constructor in Python imports the instructions of all other hardware for half a
        # minute; this is what it calls.
        create = tvm_target.package().get_global_func("s_tir.meta_schedule.TuneContext")
        initialise = tvm_target.package().get_global_func(
            "s_tir.meta_schedule.TuneContextInitialize"
        )
        self._context = create(
            module, tvm_target.target(), space, strategy, task.name,
            tvm_target.threads(), 1, lambda *_: None,
        )  # fmt: skip
        initialise(self._context)

    def run(self, most: int, deadline: float, tell: Callable[[], None]) -> None:
        """Measure until ``most`` schedules were, the time is over, or the space is."""
        task = self._task
        spaces = self._context.generate_design_space()
        self._context.pre_tuning(most, BATCH, spaces, self._records, self._model)
        try:
            while task.trials < most and time.monotonic() < deadline:
                candidates = self._context.generate_measure_candidates()
                if candidates is None:
                    return
                results = []
                for candidate in candidates:
                    if task.trials >= most or time.monotonic() >= deadline:
                        return
                    results.append(self._measure(candidate.sch))
                    task.trials += 1
                    tell()
                self._context.notify_runner_results(candidates, results)
                self._model.update(self._context, candidates, results)
        finally:
            self._context.post_tuning()

    def settle(self, deadline: float, each: float) -> None:
        """Time the best few and the schedule by rule again, in turn; the fastest stays.

        Parameters
        ----------
        deadline
            By the monotonic clock; where it leaves no room for a final, single times decide.
        each
            Seconds that building and timing a schedule takes.
        """
        room = int((deadline - time.monotonic()) / max(each, 1e-3)) - 1
        best = self._fastest[: max(room, 0)]
        if not best:
            return
        finalists = [self._task.schedule, *(schedule for _, schedule in best)]
        times: list[list[float]] = [[] for _ in finalists]
        for number in range(FINAL_ROUNDS):
            # One round alone says no more than the search did.
            if number and time.monotonic() > deadline:
                break
            for schedule, taken in zip(finalists, times, strict=True):
                with contextlib.suppress(tvm_measure.MeasureError):
                    taken.append(self._worker.seconds(self._task.function, schedule, again=True))
        medians = [statistics.median(taken) if len(taken) > 1 else math.inf for taken in times]
        place = medians.index(min(medians))
        if math.isfinite(medians[place]):
            self._task.best = medians[place]
            self._database.add(self._task.function, finalists[place], medians[place], settled=True)

    def _measure(self, schedule: Any) -> Any:
        task, ms = self._task, self._schedules
        try:
            seconds = self._worker.seconds(task.function, schedule)
        except tvm_measure.MeasureError as error:
            return ms.runner.RunnerResult(None, str(error))
        if not task.best or seconds < task.best:
            task.best = seconds
        self._database.add(task.function, schedule, seconds)
        measured = [*self._fastest, (seconds, schedule)]
        self._fastest = sorted(measured, key=operator.itemgetter(0))[:FINALISTS]
        record = ms.database.TuningRecord(
            schedule.trace, self._workload, [seconds], tvm_target.target(), []
        )
        self._records.commit_tuning_record(record)
        return ms.runner.RunnerResult([seconds], None)
