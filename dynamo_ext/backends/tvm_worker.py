"""The child process of a search: builds and times schedules, so that a crash ends it alone.

Run as a script. It reads one JSON object a line (``script``: a ``tvm.IRModule`` of one function as
text; ``trace``: its schedule; ``shapes`` and ``dtypes`` of the arguments) and answers each with
one: ``seconds``, a list, or ``error``. Nothing of ours is imported: TVM alone takes long enough
to start. With a tracker (``HOST:PORT/KEY``) it builds here and times on a machine that TVM's RPC
tracker lends: https://tvm.apache.org/docs/how_to/tutorials/cross_compilation_and_rpc.html
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from typing import Any

SECONDS = 0.02
"""How long a repetition runs at least; shorter functions run several times in it."""

REPETITIONS = 3

KEPT = 8
"""Schedules that stay built, for those that are timed again."""


REACH_SECONDS = 10
LENT_SECONDS = 600
"""How long the tracker lends a machine for; it is asked for again after that."""


class Here:
    """The machine that this process is on."""

    def __init__(self) -> None:
        import tvm

        self.device = tvm.cpu()

    def load(self, built: Any) -> Any:
        """What was built, ready to be timed."""
        return built.jit() if hasattr(built, "jit") else built


class Lent:
    """A machine that a tracker lends.

    Parameters
    ----------
    tracker
        ``HOST:PORT/KEY``.
    """

    def __init__(self, tracker: str) -> None:
        import tvm.rpc

        address, _, key = tracker.partition("/")
        host, _, port = address.rpartition(":")
        # TVM itself tries for a minute.
        socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()
        remote = tvm.rpc.connect_tracker(host, int(port))
        self._session = remote.request(key, session_timeout=LENT_SECONDS)
        self.device = self._session.cpu(0)

    def load(self, built: Any) -> Any:
        """Send what was built there as a shared library."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "schedule.so")  # noqa: PTH118 - as TVM wants it
            built.export_library(path)
            self._session.upload(path)
        return self._session.load_module("schedule.so")


def _arguments(request: dict[str, Any], device: Any) -> list[Any]:
    import numpy as np
    import tvm

    generator = np.random.default_rng(0)
    made = []
    for shape, dtype in zip(request["shapes"], request["dtypes"], strict=True):
        if dtype.startswith("float"):
            array = generator.standard_normal(shape).astype(dtype)
        else:
            # Zero is an index that any tensor has.
            array = np.zeros(shape, dtype)
        made.append(tvm.runtime.tensor(array, device=device))
    return made


class Timer:
    """Builds and times schedules on a machine.

    Parameters
    ----------
    target
        TVM's target.
    place
        Where they run.
    """

    def __init__(self, target: Any, place: Here | Lent) -> None:
        self._target = target
        self._place = place
        self._built: dict[str, Any] = {}

    def seconds(self, request: dict[str, Any]) -> list[float]:
        """Seconds of a call of a scheduled function, by repetition."""
        key = json.dumps([request["script"], request["trace"]])
        run = self._built.pop(key, None) or self._build(request)
        self._built[key] = run
        if len(self._built) > KEPT:
            del self._built[next(iter(self._built))]
        device = self._place.device
        timer = run.time_evaluator(
            "main", device, number=1, repeat=REPETITIONS, min_repeat_ms=int(SECONDS * 1000)
        )
        return [float(seconds) for seconds in timer(*_arguments(request, device)).results]

    def _build(self, request: dict[str, Any]) -> Any:
        import tvm.script
        from tvm.s_tir.schedule import Schedule, Trace

        schedule = Schedule(tvm.script.from_source(request["script"]))
        Trace.apply_json_to_schedule(request["trace"], schedule)
        return self._place.load(tvm.compile(schedule.mod, target=self._target))


def serve(cpu: str, cores: int, tracker: str = "") -> None:
    """Answer requests until there are no more; the first answer says whether there is a place."""
    import tvm

    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": cores})
    try:
        place = Lent(tracker) if tracker else Here()
    except Exception as error:  # noqa: BLE001 - whatever it is, there is no place to measure
        _say({"error": f"{type(error).__name__}: {error}"[-500:]})
        return
    _say({})
    timer = Timer(target, place)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"seconds": timer.seconds(json.loads(line))}
        except Exception as error:  # noqa: BLE001 - a schedule that does not work is an answer
            answer = {"error": f"{type(error).__name__}: {error}"[-500:]}
        _say(answer)


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
