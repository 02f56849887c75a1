"""Schedules that were measured, on disk: a line of JSON for each.

TVM's own database writes whole modules by a serialiser that ends the process in some releases of
its foreign function interface (0.1.15). A line here has a function's structural hash, the trace
of a schedule of it, and its time; the function itself is always at hand when a line is wanted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dynamo_ext.backends import tvm_schedule, tvm_target


class Database:
    """Records of one CPU, thread count and TVM version.

    Parameters
    ----------
    folder
        Where the records of all CPUs are; empty means the user's cache.

    Notes
    -----
    Lines are appended, so that several processes may write; one that is damaged is passed over.
    """

    def __init__(self, folder: str) -> None:
        base = Path(folder).expanduser() if folder else tvm_target.cache_folder() / "database"
        name = f"{tvm_target.version()}-{tvm_target.cpu()}-{tvm_target.threads()}.jsonl"
        self.path = base / name
        self._best: dict[str, tuple[float, Any]] = {}
        self._settled: set[str] = set()
        self._read()

    def __len__(self) -> int:
        return len(self._best)

    def _read(self) -> None:
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
                self._keep(
                    str(record["key"]),
                    float(record["seconds"]),
                    record["trace"],
                    settled=bool(record.get("settled")),
                )
            except (ValueError, KeyError, TypeError):
                continue

    def _keep(self, key: str, seconds: float, trace: Any, *, settled: bool) -> None:
        faster = key not in self._best or seconds < self._best[key][0]
        if settled or (faster and key not in self._settled):
            self._best[key] = (seconds, trace)
        if settled:
            self._settled.add(key)

    def has(self, function: Any) -> bool:
        """Whether any schedule of a PrimFunc was ever measured."""
        return key_of(function) in self._best

    def schedule(self, function: Any) -> Any:
        """The fastest schedule on record for a PrimFunc, or ``None``."""
        found = self._best.get(key_of(function))
        if found is None:
            return None
        from tvm.s_tir.schedule import Trace

        made = tvm_schedule.fresh(function)
        try:
            Trace.apply_json_to_schedule(found[1], made)
        except Exception:  # noqa: BLE001 - TVM refuses what a damaged record asks for
            return None
        return made

    def add(self, function: Any, schedule: Any, seconds: float, *, settled: bool = False) -> None:
        """Record how long a schedule of a PrimFunc takes.

        Parameters
        ----------
        function
            Without a schedule.
        schedule
            Of it.
        seconds
            Of a call.
        settled
            Whether it stays the one, whatever single measurements say of others.
        """
        key, trace = key_of(function), trace_of(schedule)
        record = {"key": key, "seconds": seconds, "trace": trace}
        record |= {"settled": True} if settled else {}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self._keep(key, seconds, trace, settled=settled)


def key_of(function: Any) -> str:
    """The same for PrimFuncs that differ in names alone."""
    import tvm_ffi

    return str(tvm_ffi.structural_hash(tvm_schedule.fresh(function).mod))


def trace_of(schedule: Any) -> Any:
    """A schedule's trace as lists, numbers and text."""
    return json.loads(json.dumps(schedule.trace.as_json(), default=_plain))


def _plain(value: Any) -> Any:
    return value.value if hasattr(value, "value") else list(value)
