"""Schedules by search: MetaSchedule's space and strategy, and a database on disk.

The space of a function is what the rules for LLVM span over its loops; an evolutionary search
asks a cost model which of them to build and time next (arXiv:2205.13603). The fastest of many that
were timed once is in part the luckiest, and what is fast by itself need not be so between other
functions. So what was found stays only if the whole partition is faster with it than by rule.
"""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.engines.tvm import session as tvm_session
from dynamo_ext.backends.engines.tvm import target
from dynamo_ext.backends.engines.tvm.schedule import rules
from dynamo_ext.backends.engines.tvm.tuning import measure
from dynamo_ext.backends.engines.tvm.tuning.database import Database, key_of, trace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.fx import GraphModule

BATCH = 8
"""Candidates that the search gives at a time."""

POPULATION = 128
"""Schedules that the cost model looks at for each batch: a quarter of TVM's own default, for a
notebook's user waits for it."""

BUDGET = 120.0
"""Seconds of searching for a graph, where nothing else is said."""

NEGLIGIBLE = 0.02
"""Share of a graph's time below which a function is left as the rules have it."""

ROUNDS, WON = 11, 9
"""Rounds of the race of a tuned partition with the one by rule, and those that it has to win."""

SAMPLE_SECONDS = 0.01
"""How long a reading of the clock lasts at least; shorter partitions run several times in it."""


class SearchError(RuntimeError):
    """The installed TVM cannot search."""


@dataclass
class Task:
    """A function of a graph that wants a schedule, and how often it was measured.

    ``schedule`` is that by rule, which takes ``seconds``; the fastest found takes ``best``. Both
    are zero where none ran.
    """

    name: str
    function: Any
    schedule: Any
    seconds: float = 0.0
    best: float = 0.0
    trials: int = 0


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
        Whether this is the last report about the graph.
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
    """Rewrite one line of the terminal or cell; say nothing where the output is not shown."""
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


def session(graph: GraphModule, options: Mapping[str, Any]) -> tvm_session.Session:
    """Compile a partition with the best schedules known, after searching for what is new.

    Parameters
    ----------
    graph
        A partition of fixed shapes.
    options
        ``tune``, ``trials``, ``budget`` and ``database``.

    Raises
    ------
    KeyboardInterrupt
        Where the search is interrupted. What was measured is on record, so that the next compile
        goes on from there.
    """

    def build(program: tvm_session.Program) -> Any:
        database = Database(str(options["database"]))

        def best(function: Any) -> Any:
            return database.schedule(function) or rules.schedule(function)

        if not options["tune"]:
            return program.built(best)
        tasks = tune([*program.functions.values()], database, options)
        return better_build(program, tasks, best, database)

    return tvm_session.Session(graph, build)


def better_build(
    program: tvm_session.Program,
    tasks: Sequence[Task],
    best: Callable[[Any], Any],
    database: Database,
) -> Any:
    """A virtual machine with what a search found, or by rule where that is not faster.

    Parameters
    ----------
    program
        The partition.
    tasks
        The functions that were searched for.
    best
        Makes the best schedule known of any function.
    database
        Where the rules win, their schedules are settled there.
    """
    tuned = program.built(best)
    changed = [task for task in tasks if trace_of(best(task.function)) != trace_of(task.schedule)]
    if not changed:
        return tuned
    ruled = {key_of(task.function): task.schedule for task in changed}
    by_rule = program.built(lambda function: ruled.get(key_of(function)) or best(function))
    if faster(tuned["main"], by_rule["main"], program.inputs()):
        return tuned
    for task in changed:
        database.add(task.function, task.schedule, task.seconds, settled=True)
    return by_rule


def faster(
    challenger: Callable[..., Any], holder: Callable[..., Any], inputs: Sequence[Any]
) -> bool:
    """Whether a challenger beats the holder in most rounds of a race, in which they take turns."""
    runners = (challenger, holder)
    once = max(_seconds(run, inputs, 1) for run in (*runners, *runners))
    calls = max(1, round(SAMPLE_SECONDS / max(once, 1e-9)))
    won = 0
    for number in range(ROUNDS):
        taken = [0.0, 0.0]
        for place in (number % 2, 1 - number % 2):
            taken[place] = _seconds(runners[place], inputs, calls)
        won += taken[0] < taken[1]
    return won >= WON


def _seconds(run: Callable[..., Any], inputs: Sequence[Any], calls: int) -> float:
    started = time.perf_counter()
    for _ in range(calls):
        run(*inputs)
    return (time.perf_counter() - started) / calls


def tune(functions: list[Any], database: Database, options: Mapping[str, Any]) -> list[Task]:
    """Search schedules for the PrimFuncs that have no record.

    Parameters
    ----------
    functions
        PrimFuncs without schedules.
    database
        Where records are, and go.
    options
        ``trials`` and ``budget``.

    Returns
    -------
    list
        The functions that were searched for, the longest first.
    """
    start = time.monotonic()
    budget, most = options["budget"], options["trials"]
    # What is new, each once however often it occurs.
    new = {key_of(function): function for function in functions if not database.has(function)}
    tasks = [Task("+".join(rules.names(f)), f, rules.schedule(f)) for f in new.values()]
    if not tasks or most < 1:
        return []
    if failure := target.proof()["serialise"]:
        # The search would end this process.
        raise SearchError(failure)
    # Keep TVM from clearing a cell's output when it has something to print.
    name = "s_tir.meta_schedule.using_ipython"
    target.package().register_global_func(name, lambda: False, override=True)
    searched: list[Task] = []
    with measure.Worker() as worker:
        for task in tasks:
            if time.monotonic() - start < budget:
                with contextlib.suppress(measure.MeasureError):
                    task.seconds = task.best = worker.seconds(task.function, task.schedule)
        tasks.sort(key=lambda task: -task.seconds)
        least = NEGLIGIBLE * sum(task.seconds for task in tasks)
        worth = [task for task in tasks if task.seconds > least]
        for task in tasks:
            if task.seconds and task not in worth:
                database.add(task.function, task.schedule, task.seconds)
        for position, task in enumerate(worth):
            left = budget - (time.monotonic() - start)
            if left <= 0:
                break

            def report(task: Task = task, position: int = position) -> None:
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
            report()
            _search(task, database, worker, most, time.monotonic() + share, report)
            searched.append(task)
    return searched


def _search(  # noqa: PLR0913, PLR0917 - each of them is the caller's
    task: Task,
    database: Database,
    worker: measure.Worker,
    most: int,
    deadline: float,
    report: Callable[[], None],
) -> None:
    """An evolutionary search of one function's space.

    It ends when ``most`` schedules were measured, the time is over, or the space is.
    """
    from tvm.s_tir import meta_schedule as ms

    # The search draws its population from here; what stays is in the other one.
    records = ms.database.MemoryDatabase()
    module = rules.fresh(task.function).mod
    workload = records.commit_workload(module)
    space = ms.space_generator.PostOrderApply(
        sch_rules="llvm", postprocs="llvm", mutator_probs="llvm"
    )
    strategy = ms.search_strategy.EvolutionarySearch(
        population_size=POPULATION, init_min_unmeasured=BATCH, genetic_num_iters=3
    )
    threads = target.threads()
    model = ms.cost_model.XGBModel(num_warmup_samples=2 * BATCH, num_tuning_cores=threads)
    # Its constructor in Python imports the instructions of all other hardware for half a
    # minute; this is what it calls.
    create = target.package().get_global_func("s_tir.meta_schedule.TuneContext")
    initialise = target.package().get_global_func("s_tir.meta_schedule.TuneContextInitialize")
    context = create(
        module, target.target(), space, strategy, task.name, threads, 1, lambda *_: None
    )
    initialise(context)

    def measured(schedule: Any) -> Any:
        task.trials += 1
        try:
            seconds = worker.seconds(task.function, schedule)
        except measure.MeasureError as error:
            return ms.runner.RunnerResult(None, str(error))
        task.best = min(task.best, seconds)
        database.add(task.function, schedule, seconds)
        records.commit_tuning_record(
            ms.database.TuningRecord(schedule.trace, workload, [seconds], target.target(), [])
        )
        return ms.runner.RunnerResult([seconds], None)

    context.pre_tuning(most, BATCH, context.generate_design_space(), records, model)
    try:
        # To generate them takes seconds.
        while task.trials < most and time.monotonic() < deadline:
            if not (candidates := context.generate_measure_candidates()):
                return
            results = []
            for candidate in candidates:
                if task.trials >= most or time.monotonic() >= deadline:
                    return
                results.append(measured(candidate.sch))
                report()
            context.notify_runner_results(candidates, results)
            model.update(context, candidates, results)
    finally:
        context.post_tuning()
