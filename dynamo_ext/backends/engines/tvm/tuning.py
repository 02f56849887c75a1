"""Schedules by TVM's MetaSchedule, a search that measures (arXiv:2205.13603), and its database.

The fastest of many that were timed once is in part the luckiest, and what is fast by itself need
not be so between other functions. So what was found stays only if the whole partition is faster
with it than by rule. Schedules are timed in a child process, so that a crash ends that one alone.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dynamo_ext.backends.base import LoweringRequest
from dynamo_ext.backends.engines.tvm import target
from dynamo_ext.backends.engines.tvm.schedule import rules
from dynamo_ext.backends.engines.tvm.session import Program
from dynamo_ext.interruptions import failures, interrupts_later, suppressed
from dynamo_ext.numerics.rng_state import host_kept
from dynamo_ext.timing.race import Plan, TimedCallable, race

BATCH = 8
"""Candidates that the search gives at a time."""

CALL_SECONDS = 20.0
"""How long the child may take over one schedule before it is ended and started again."""

SHARE = 0.7
"""Of the seconds that are left for a first run, what a search may take."""

BUDGET = 120.0
"""Seconds of searching for a graph, where nothing else is said."""

NEGLIGIBLE = 0.02
"""Share of a graph's time below which a function is left as the rules have it."""


def built(request: LoweringRequest, program: Program) -> Any:
    """A partition with the best schedules known, after searching for what is new."""
    from tvm.s_tir.meta_schedule import database, relax_integration

    options = request.options
    base = Path(options["database"] or target.cache_folder() / "database").expanduser()
    folder = base / f"{target.version()}-{target.cpu()}-{target.threads()}"
    records = []
    # Each search has files of its own: TVM's are for one process to write.
    for path in sorted(folder.glob("*")):
        # Of a damaged one the functions are new again.
        with suppressed(Exception):
            records.append(database.JSONDatabase(work_dir=str(path), allow_missing=False))
    known, names = database.UnionDatabase(*records), {e.name_hint for e in program.functions}
    by_rule = program.built(partial(_best, known))
    functions = relax_integration.extract_tasks(program.module, target.target())
    new = [each for each in functions if each.task_name in names and not _record(known, each)]
    if not (new and options["tune"] and options["trials"] and options["budget"]):
        return by_rule
    own, path = database.MemoryDatabase(), folder / f"{time.time_ns()}-{os.getpid()}"
    with contextlib.suppress(OSError):
        path.mkdir(parents=True)
        own = database.JSONDatabase(work_dir=str(path))
    tune(new, own, request)
    tuned = program.built(partial(_best, database.UnionDatabase(*records, own)))
    pair = [TimedCallable("", partial(e["main"], *program.inputs())) for e in (by_rule, tuned)]
    race(pair, Plan(rounds=11))
    if (speedup := pair[1].speedup_over(pair[0])) and speedup.verdict == "faster":
        return tuned
    for function in new:
        if _record(own, function):
            # No time is shorter: the rules stay, whatever single measurements say.
            _keep_rule(own, function, 0.0)
    return by_rule


def _best(database: Any, function: Any) -> Any:
    found = None
    # TVM refuses what a damaged record asks for.
    with suppressed(Exception):
        found = database.query_schedule(rules.fresh(function).mod, target.target(), "main")
    return found or rules.schedule(function)


def _record(database: Any, function: Any) -> Any:
    return database.query_tuning_record(function.dispatched[0], target.target(), "main")


def _keep_rule(database: Any, function: Any, seconds: float) -> None:
    from tvm.s_tir.meta_schedule.database import TuningRecord

    module = function.dispatched[0]
    trace, workload = rules.schedule(module["main"]).trace, database.commit_workload(module)
    database.commit_tuning_record(TuningRecord(trace, workload, [seconds], target.target()))


def tune(functions: Sequence[Any], database: Any, request: LoweringRequest) -> None:
    """Search schedules for functions that TVM extracted: ``trials`` each, in ``budget`` seconds.

    An interrupt ends the search, and is raised when what was measured is in the database.
    """
    import tvm
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms
    from tvm.support.popen_pool import PopenPoolExecutor

    start, most = time.monotonic(), request.options["trials"]
    # What is found has to be compiled and checked in the seconds that a first run has.
    budget = min(request.options["budget"], SHARE * request.budget.left)
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = PopenPoolExecutor(max_workers=1, timeout=CALL_SECONDS, **silent)

    def over() -> bool:
        return bool(interrupts) or time.monotonic() - start >= budget

    def timed(module: str) -> tuple[list[float] | None, str | None]:
        return (None, "The search is over.") if over() else measured(child, module)

    @derived_object
    class Builder(ms.builder.PyBuilder):  # type: ignore[misc]
        def build(self, inputs: Any) -> Any:
            # What times a schedule also compiles it.
            return [ms.builder.BuilderResult(tvm.ir.save_json(each.mod), None) for each in inputs]

    @derived_object
    class Runner(ms.runner.PyRunner):  # type: ignore[misc]
        def run(self, inputs: Any) -> Any:
            if over():
                # Called to end its tasks, TVM may end one twice, which it takes for an error, too.
                raise TimeoutError
            return [ms.runner.LocalRunnerFuture(*timed(str(each.artifact_path))) for each in inputs]

    recording = [ms.measure_callback.AddToDatabase(), ms.measure_callback.UpdateCostModel()]
    # Keep TVM from clearing a cell's output when it has something to print.
    tvm.register_global_func("s_tir.meta_schedule.using_ipython", lambda: False, override=True)
    with contextlib.ExitStack() as ended, interrupts_later() as interrupts, host_kept():
        ended.callback(child.shutdown)
        made = [rules.schedule(function.dispatched[0]["main"]) for function in functions]
        by_rule = [(timed(tvm.ir.save_json(each.mod))[0] or [0.0])[0] for each in made]
        pairs = list(zip(by_rule, functions, strict=True))
        worth = [pair for pair in pairs if pair[0] > NEGLIGIBLE * sum(by_rule)]
        number = f"{most} for each function ({len(worth)})"
        request.journal.tell(f"searches schedules: {number}, {budget:.0f} s at most")
        try:
            ms.tune.tune_tasks(
                tasks=[_context(function) for _, function in worth],
                task_weights=[float(function.weight) for _, function in worth],
                work_dir="",
                max_trials_global=most * len(worth),
                max_trials_per_task=most,
                num_trials_per_iter=BATCH,
                builder=Builder(),
                runner=Runner(),
                database=database,
                cost_model=ms.cost_model.XGBModel(
                    num_warmup_samples=16, num_tuning_cores=target.threads()
                ),
                measure_callbacks=recording,
                # Each task in turn: the other way TVM records nothing before each has had one.
                task_scheduler="round-robin",
            )
        except failures():
            if worth and not over():
                raise
        request.journal.tell("")
        left = [(s, f) for s, f in pairs if s and ((s, f) not in worth or _record(database, f))]
        for seconds, function in left:
            _keep_rule(database, function, seconds)


def measured(child: Any, module: str) -> tuple[list[float] | None, str | None]:
    """The median seconds of a scheduled module, given as JSON; or what went wrong."""

    # Within the function: so the child, which need not find this package, is sent all of it.
    def median(text: str, kind: Any) -> float:
        import numpy as np
        import tvm

        module, generator, arguments = tvm.ir.load_json(text), np.random.default_rng(0), []
        for buffer in module["main"].params:
            shape, dtype = [int(size) for size in buffer.shape], str(buffer.dtype)
            # Zero is an index that any tensor has.
            floating = dtype.startswith("float")
            array = generator.standard_normal(shape) if floating else np.zeros(shape)
            arguments.append(tvm.runtime.tensor(array.astype(dtype)))
        run = tvm.compile(module, target=kind).jit()
        timer = run.time_evaluator("main", tvm.cpu(), number=1, repeat=3, min_repeat_ms=20)
        return float(timer(*arguments).median)

    try:
        return [child.submit(median, module, target.target()).result()], None
    except failures() as error:  # TVM refuses it, or the child ended
        return None, f"{type(error).__name__}: {str(error)[-500:]}"


def _context(function: Any) -> Any:
    from tvm.s_tir import meta_schedule as ms

    # The constructor in Python imports the instructions of all other hardware for half a minute,
    # and what makes TVM's loggers closes the handlers of the user's; this is what it calls.
    create = target.package().get_global_func("s_tir.meta_schedule.TuneContext")
    context = create(
        function.dispatched[0],
        target.target(),
        ms.space_generator.PostOrderApply(sch_rules="llvm", postprocs="llvm", mutator_probs="llvm"),
        ms.search_strategy.EvolutionarySearch(
            population_size=128, init_min_unmeasured=BATCH, genetic_num_iters=3
        ),
        function.task_name,
        target.threads(),
        1,
        lambda *_: None,
    )
    target.package().get_global_func("s_tir.meta_schedule.TuneContextInitialize")(context)
    return context
