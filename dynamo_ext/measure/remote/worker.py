"""What runs in the process that measures: bytes in, plain values out."""

from __future__ import annotations

import faulthandler
import os
import pickle
import platform
import signal
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from dynamo_ext.measure.remote import serialization

# Two measurements at once in one process (a thread pool) would disturb each other.
_alone = threading.Lock()


_faults: IO[str] | None = None


def begin(faults: str) -> None:
    """Set a process of our own up; the file ``faults`` says where a crash happened."""
    global _faults  # noqa: PLW0603 - closed with the process
    _faults = Path(faults).open("w", encoding="utf-8")  # noqa: SIM115
    # Of the thread that crashed: others only wait.
    faulthandler.enable(_faults, all_threads=False)
    # A terminal sends an interrupt to all processes; the one that asks deals with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def ready() -> str:
    """Import what every measurement needs; which process this is."""
    return name()


def name() -> str:
    """The name that a row gives this process."""
    return f"{platform.node()}, process {os.getpid()}"


def measure(packed: bytes) -> dict[str, Any]:
    """Measure what ``serialization.pack`` packed.

    Returns ``worker``; ``comparison`` (``Comparison.to_dict``) where it came to one; else
    ``reason`` and ``remedy``; with ``raised`` (a pickled exception), ``trace`` and ``missing`` (a
    name) where the code itself raised.
    """
    from dynamo_ext.backends import crash_records

    # It is for this that it has a process of its own: what ends it is a row.
    with _alone, crash_records.unrecorded():
        envelope = serialization.opened(packed)
        refused = _differing(envelope["versions"])
        answer: dict[str, Any] = {"worker": name()}
        return answer | (refused or _measured(envelope))


def _differing(needed: Mapping[str, str]) -> dict[str, Any]:
    here = serialization.versions()
    wrong = [key for key, version in needed.items() if here.get(key) != version]
    if not wrong:
        return {}
    said = ", ".join(f"{key} {here[key]} where {needed[key]} is needed" for key in wrong)
    wanted = ", ".join(f"{key} {needed[key]}" for key in wrong)
    return {"reason": f"The worker has {said}.", "remedy": f"Give the worker {wanted}."}


def _measured(envelope: Mapping[str, Any]) -> dict[str, Any]:
    from dynamo_ext.measure.candidate_run import one_line
    from dynamo_ext.measure.compare import compare_workload
    from dynamo_ext.measure.state.process_state import Surroundings

    outer, started = Surroundings(), False
    try:
        with serialization.unpacked(envelope) as (parts, namespace):
            settings = parts["settings"]
            candidates = [serialization.candidate_from(each) for each in parts["candidates"]]
            serialization.surround(parts["surroundings"])
            workload = parts["task"].workload(namespace, train=settings.train)
            started = True
            return {"comparison": compare_workload(workload, candidates, settings).to_dict()}
    except (SystemExit, GeneratorExit) as error:
        return {"reason": f"It asked its process to end ({one_line(error)}).", "remedy": ""}
    except Exception as error:  # noqa: BLE001 - handed to the process that asked
        if started:
            return _raised(error)
        return {
            "reason": f"The worker cannot rebuild what was sent: {one_line(error)}.",
            "remedy": "Install what it needs there, or send its module by value "
            "(cloudpickle.register_pickle_by_value).",
        }
    finally:
        outer.restore()


def _raised(error: Exception) -> dict[str, Any]:
    from dynamo_ext.measure.candidate_run import one_line

    answer = {
        "reason": one_line(error),
        "remedy": "",
        "raised": b"",
        "trace": "".join(traceback.format_exception(error)),
        "missing": str(getattr(error, "name", None) or "") if isinstance(error, NameError) else "",
    }
    try:
        pickled = pickle.dumps(error.with_traceback(None))
        pickle.loads(pickled)  # noqa: S301 - some are pickled and cannot be read
    except Exception:  # noqa: BLE001 - its one line must do
        return answer
    return answer | {"raised": pickled}
