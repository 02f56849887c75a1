"""Times of schedules, taken in a child process, so that a crash ends that process alone."""

import contextlib
import statistics
import subprocess
import sys
from typing import Any

import cloudpickle

from dynamo_ext.backends.engines.tvm import target
from dynamo_ext.interruptions import pass_on

CALL_SECONDS = 20.0
"""How long the child may take over one schedule before it is ended and started again."""

MILLISECONDS = 20
"""How long a repetition runs at least; shorter functions run several times in it."""

REPETITIONS = 3


class MeasureError(RuntimeError):
    """A schedule could not be built or run; the message is TVM's."""


class Worker(contextlib.AbstractContextManager["Worker"]):
    """A child process that builds and times schedules, one at a time.

    A context manager: the process ends with it. It has this process's thread count.
    """

    def __init__(self) -> None:
        from tvm.support.popen_pool import PopenWorker

        # The child need not find this package.
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        self._process = PopenWorker(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __exit__(self, *_: object) -> None:
        self._process.kill()

    def seconds(self, schedule: Any) -> float:
        """How long a PrimFunc takes as it is scheduled: the median of a few repetitions.

        Raises ``MeasureError`` where it cannot be built or run, or takes too long.
        """
        try:
            request = schedule.mod, target.target()
            self._process.send(_timed, request, timeout=CALL_SECONDS)
            return float(statistics.median(self._process.recv()))
        except Exception as error:
            pass_on(error)
            known: dict[type[Exception], str] = {
                TimeoutError: f"It took more than {CALL_SECONDS:.0f} seconds.",
                ChildProcessError: "The measuring process ended.",
            }
            raise MeasureError(known.get(type(error), str(error)[-500:])) from error


def _timed(module: Any, target: Any) -> list[float]:
    """Seconds of a call of a scheduled function, by repetition; in the child process."""
    import numpy as np
    import tvm

    generator = np.random.default_rng(0)
    arguments = []
    for buffer in module["main"].params:
        shape, dtype = [int(size) for size in buffer.shape], str(buffer.dtype)
        # Zero is an index that any tensor has.
        floating = dtype.startswith("float")
        array = generator.standard_normal(shape) if floating else np.zeros(shape)
        arguments.append(tvm.runtime.tensor(array.astype(dtype)))
    run = tvm.compile(module, target=target).jit()
    timer = run.time_evaluator(
        "main", tvm.cpu(), number=1, repeat=REPETITIONS, min_repeat_ms=MILLISECONDS
    )
    return list(timer(*arguments).results)
