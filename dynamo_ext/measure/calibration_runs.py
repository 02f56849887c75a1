"""Runs of a workload that calibrate int8."""

from collections.abc import Callable, Sequence
from typing import Any

from dynamo_ext.backends.calibration import calibrating
from dynamo_ext.measure.workload import Workload


def calibrate(call: Callable[[], object], workload: Workload, inputs: Sequence[Any]) -> None:
    """Make a compiled call on other inputs and on the workload's own, before int8 is compiled.

    ``inputs`` are as ``Workload.on`` takes them. Everything is as before when it returns; raises
    what the code raises.
    """
    try:
        with calibrating():
            for given in inputs:
                with workload.on(given):
                    call()
            # Its own last: where sizes differ, they run the newest graph, as they will later.
            call()
    finally:
        workload.restore(thorough=True)
