"""Schedules by search: MetaSchedule's space and strategy, and a database on disk.

The space of a function is what the rules for LLVM span over its loops; an evolutionary search
asks a cost model which of them to build and time next (arXiv:2205.13603). The fastest of many that
were timed once is in part the luckiest, and what is fast by itself need not be so between other
functions. So what was found stays only if the whole partition is faster with it than by rule.
"""

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule

from dynamo_ext.backends.engines.tvm import session as tvm_session
from dynamo_ext.backends.engines.tvm import target
from dynamo_ext.backends.engines.tvm.schedule import rules
from dynamo_ext.backends.engines.tvm.tuning import measure
from dynamo_ext.backends.engines.tvm.tuning.database import Database, key_of, trace_of
from dynamo_ext.timing.race import Plan, TimedCallable, race

BATCH = 8
"""Candidates that the search gives at a time."""

POPULATION = 128
"""Schedules that the cost model looks at for each batch: a quarter of TVM's own default, for a
notebook's user waits for it."""

BUDGET = 120.0
"""Seconds of searching for a graph, where nothing else is said."""

NEGLIGIBLE = 0.02
"""Share of a graph's time below which a function is left as the rules have it."""

ROUNDS = 11
"""Of the race of a tuned partition with the one by rule."""


@dataclass
class Task:
    """A function of a graph that wants a schedule, and how many of it were measured.

    ``schedule`` is that by rule, which takes ``seconds``, or zero if it did not run; the fastest
    found takes ``best``.
    """

    name: str
    function: Any
    schedule: Any
    seconds: float = 0.0
    best: float = 0.0
    trials: int = 0


def show(task: Task, place: str, most: int, spent: str, *, finished: bool) -> None:
    """Tell how far a search has come, after each measurement, in one line that is written over.

    Nothing is said where the output is not shown. ``place`` is that of the task among all,
    ``most`` the trials of it, and ``spent`` are the seconds of the whole search.
    """
    stream = sys.stderr
    if not (stream.isatty() or "ipykernel" in sys.modules):
        return
    text = (
        f"tvm_meta_schedule: {place} ({task.name}), {task.trials}/{most} trials, best "
        f"{task.best * 1e6:.0f} µs (by rule {task.seconds * 1e6:.0f} µs), {spent} s"
    )
    stream.write(f"\r{text:<110}" + ("\n" if finished else ""))
    stream.flush()


def session(graph: GraphModule, options: Mapping[str, Any]) -> tvm_session.Session:
    """Compile a partition with the best schedules known, after searching for what is new.

    Raises ``KeyboardInterrupt`` where the search is interrupted. What was measured is on record, so
    that the next compile goes on from there.
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

    ``best`` makes the best schedule known of any function, of which ``tasks`` were searched for.
    Where the rules win, their schedules are settled in the database.
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
    """Whether a challenger is clearly faster than the holder in a race."""
    base = TimedCallable("by rule", functools.partial(holder, *inputs))
    tuned = TimedCallable("tuned", functools.partial(challenger, *inputs))
    race([base, tuned], Plan(rounds=ROUNDS))
    speedup = tuned.speedup_over(base)
    return speedup is not None and speedup.verdict == "faster"


def tune(functions: list[Any], database: Database, options: Mapping[str, Any]) -> list[Task]:
    """Search schedules for the PrimFuncs that have no record, and give these, the longest first.

    Of the options it reads ``trials`` and ``budget``.
    """
    start = time.monotonic()
    budget, most = options["budget"], options["trials"]
    # What is new, each once however often it occurs.
    new = {key_of(function): function for function in functions if not database.has(function)}
    tasks = [Task("+".join(rules.names(f)), f, rules.schedule(f)) for f in new.values()]
    if not tasks or most < 1:
        return []
    # Keep TVM from clearing a cell's output when it has something to print.
    name = "s_tir.meta_schedule.using_ipython"
    target.package().register_global_func(name, lambda: False, override=True)
    searched: list[Task] = []
    with measure.Worker() as worker:
        for task in tasks:
            if time.monotonic() - start < budget:
                with contextlib.suppress(measure.MeasureError):
                    task.seconds = task.best = worker.seconds(task.schedule)
        tasks.sort(key=lambda task: -task.seconds)
        least = NEGLIGIBLE * sum(task.seconds for task in tasks)
        worth = [task for task in tasks if task.seconds > least]
        for task in tasks[len(worth) :]:
            if task.seconds:
                database.add(task.function, task.schedule, task.seconds)
        for position, task in enumerate(worth, start=1):
            now = time.monotonic()
            left = budget - (now - start)
            if left <= 0:
                break
            # What is left is shared by the functions that are left, by how long they take.
            share = left * task.seconds / sum(t.seconds for t in worth[position - 1 :])
            for _ in _search(task, database, worker, most, now + share):
                spent = f"{time.monotonic() - start:.0f} of {budget:.0f}"
                finished = position == len(worth) and task.trials >= most
                show(task, f"{position} of {len(worth)}", most, spent, finished=finished)
            searched.append(task)
    return searched


def _search(
    task: Task, database: Database, worker: measure.Worker, most: int, deadline: float
) -> Iterator[None]:
    """An evolutionary search of one function's space: it yields after each measurement.

    The first is that of the schedule by rule. It ends when ``most`` schedules were measured, the
    time is over, or the space is.
    """
    from tvm.s_tir import meta_schedule as ms

    database.add(task.function, task.schedule, task.seconds)
    task.trials = 1
    yield
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

    def over() -> bool:
        return task.trials >= most or time.monotonic() >= deadline

    context.pre_tuning(most, BATCH, context.generate_design_space(), records, model)
    try:
        # To generate them takes seconds.
        while not over() and (candidates := context.generate_measure_candidates()):
            results = []
            for candidate in candidates:
                if over():
                    return
                task.trials += 1
                try:
                    seconds = worker.seconds(candidate.sch)
                except measure.MeasureError as error:
                    results.append(ms.runner.RunnerResult(None, str(error)))
                else:
                    results.append(ms.runner.RunnerResult([seconds], None))
                    task.best = min(task.best, seconds)
                    database.add(task.function, candidate.sch, seconds)
                    records.commit_tuning_record(
                        ms.database.TuningRecord(
                            candidate.sch.trace, workload, [seconds], target.target(), []
                        )
                    )
                yield
            context.notify_runner_results(candidates, results)
            model.update(context, candidates, results)
    finally:
        context.post_tuning()
