"""Runs of a workload that calibrate int8."""

from collections.abc import Callable, Sequence
from typing import Any

from dynamo_ext.backends.calibration import calibrating
from dynamo_ext.measure.workload import Workload


def calibrate(call: Callable[[], object], workload: Workload, inputs: Sequence[Any]) -> None:
    """Make a compiled call on the workload's own inputs and on others, before int8 is compiled.

    ``inputs`` are as ``Workload.on`` takes them. Everything is as before when it returns; raises
    what the code raises.
    """
    try:
        with calibrating():
            # Its own first: Dynamo keeps their sizes, where others differ.
            call()
            for given in inputs:
                with workload.on(given):
                    call()
    finally:
        workload.restore(thorough=True)
