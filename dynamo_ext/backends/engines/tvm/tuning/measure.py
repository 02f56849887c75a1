"""Times of schedules, taken in a child process, so that a crash ends that process alone."""

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from dynamo_ext.backends.engines.tvm import target
from dynamo_ext.interruptions import pass_on

CALL_SECONDS = 20.0
"""How long the child may take over one schedule before it is ended and started again."""


class Worker(contextlib.AbstractContextManager["Worker"]):
    """A child process that builds and times schedules; it ends with the block.

    Where it is ``over``, no more are timed.
    """

    def __init__(self, over: Callable[[], bool]) -> None:
        from tvm.support.popen_pool import PopenWorker

        # The child need not find this package.
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        self.over = over
        self._process = PopenWorker(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __exit__(self, *_: object) -> None:
        self._process.kill()

    def time(self, module: str) -> tuple[list[float] | None, str | None]:
        """The median seconds of a scheduled module, given as JSON; or what went wrong."""
        if self.over():
            return None, "The search is over."
        try:
            self._process.send(_timed, (module, target.target()), timeout=CALL_SECONDS)
            return [statistics.median(self._process.recv())], None
        except Exception as error:  # noqa: BLE001 - TVM refuses it, or the child ended
            pass_on(error)
            return None, f"{type(error).__name__}: {str(error)[-500:]}"


def _timed(text: str, target: Any) -> list[float]:
    import numpy as np
    import tvm

    module, generator, arguments = tvm.ir.load_json(text), np.random.default_rng(0), []
    for buffer in module["main"].params:
        shape, dtype = [int(size) for size in buffer.shape], str(buffer.dtype)
        # Zero is an index that any tensor has.
        floating = dtype.startswith("float")
        array = generator.standard_normal(shape) if floating else np.zeros(shape)
        arguments.append(tvm.runtime.tensor(array.astype(dtype)))
    run = tvm.compile(module, target=target).jit()
    timer = run.time_evaluator("main", tvm.cpu(), number=1, repeat=3, min_repeat_ms=20)
    return list(timer(*arguments).results)


def tools(worker: Worker, told: Callable[[int, Sequence[Any]], None]) -> tuple[Any, Any, list[Any]]:
    """MetaSchedule's builder, runner and callbacks: they record times, and raise where it is over.

    ``told`` gets the number of a task, and the results of its latest candidates.
    """
    import tvm
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule import measure_callback as callbacks

    @derived_object
    class Builder(ms.builder.PyBuilder):  # type: ignore[misc]
        def build(self, inputs: Any) -> Any:
            # What times a schedule also compiles it.
            return [ms.builder.BuilderResult(tvm.ir.save_json(each.mod), None) for each in inputs]

    @derived_object
    class Runner(ms.runner.PyRunner):  # type: ignore[misc]
        def run(self, inputs: Any) -> Any:
            if worker.over():
                # Called to end its tasks, TVM may end one twice, which it takes for an error, too.
                raise TimeoutError
            results = [worker.time(str(each.artifact_path)) for each in inputs]
            return [ms.runner.LocalRunnerFuture(*each) for each in results]

    @derived_object
    class Progress(callbacks.PyMeasureCallback):  # type: ignore[misc]
        def apply(self, _: Any, task: int, __: Any, ___: Any, results: Any) -> None:
            told(task, results)

    recording = [callbacks.AddToDatabase(), callbacks.UpdateCostModel()]
    return Builder(), Runner(), [*recording, Progress()]
