"""The child process of a search: builds and times schedules, so that a crash ends it alone.

Run as a script. It reads one JSON object a line (``script``: a ``tvm.IRModule`` of one function as
text; ``trace``: its schedule; ``shapes`` and ``dtypes`` of the arguments) and answers each with
one: ``seconds``, a list, or ``error``. A first, empty object says that it has started. Nothing of
ours is imported: TVM alone takes long enough to start.
"""

from __future__ import annotations

import json
import sys
from typing import Any

SECONDS = 0.02
"""How long a repetition runs at least; shorter functions run several times in it."""

REPETITIONS = 3


def _arguments(request: dict[str, Any]) -> list[Any]:
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
        made.append(tvm.runtime.tensor(array))
    return made


def seconds(request: dict[str, Any], target: Any) -> list[float]:
    """Seconds of a call of a scheduled function, by repetition."""
    import tvm.script
    from tvm.s_tir.schedule import Schedule, Trace

    schedule = Schedule(tvm.script.from_source(request["script"]))
    Trace.apply_json_to_schedule(request["trace"], schedule)
    built = tvm.compile(schedule.mod, target=target)
    run = built.jit() if hasattr(built, "jit") else built
    timer = run.time_evaluator(
        "main", tvm.cpu(), number=1, repeat=REPETITIONS, min_repeat_ms=int(SECONDS * 1000)
    )
    return [float(each) for each in timer(*_arguments(request)).results]


def serve(cpu: str, cores: int) -> None:
    """Answer requests until there are no more."""
    import tvm

    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": cores})
    _say({})
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"seconds": seconds(json.loads(line), target)}
        except Exception as error:  # noqa: BLE001 - a schedule that does not work is an answer
            answer = {"error": f"{type(error).__name__}: {error}"[-500:]}
        _say(answer)


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
