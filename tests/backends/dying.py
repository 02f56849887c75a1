"""An engine that ends the process where it is told to."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from dynamo_ext import Backend
from dynamo_ext.backends.base import Support
from dynamo_ext.records.common import Availability


def crash() -> None:
    """Read address 0."""
    ctypes.string_at(0)


def wait() -> None:
    """Be in C, where Python's own signal handlers have to wait."""
    ctypes.CDLL(None).sleep(int(os.environ.get("SECONDS", "60")))


class Dying(Backend):
    """Ends the process in ``supports``, in ``lower`` or in the first run; or waits there."""

    name = "dying"

    def __init__(self, when: str) -> None:
        self.whole_graph = when.startswith("whole")
        self.when = when.removeprefix("whole ")

    def probe(self) -> Availability:
        return Availability(available=True, version=os.environ.get("VERSION", "1"))

    def _end(self, stage: str) -> None:
        if self.when == stage:
            crash()
        if self.when == f"wait in {stage}":
            wait()

    def supports(self, node: Any) -> Support:
        self._end("supports")
        return Support(supported=True)

    def lower(self, graph: Any, example_inputs: Any, options: Any) -> Any:
        self._end("lower")

        def run(*args: Any) -> Any:
            self._end("run")
            return graph(*args)

        return run


def dying(when: str) -> Dying:
    return Dying(when)
