"""Schedules that were measured, on disk: a line of JSON for each.

TVM's own database writes whole modules by a serialiser that ends the process in some releases of
its foreign function interface (0.1.15). A line here has a function's structural hash, the trace
of a schedule of it, and its time; the function itself is always at hand when a line is wanted.
"""

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dynamo_ext.backends.engines.tvm import target
from dynamo_ext.backends.engines.tvm.schedule import rules
from dynamo_ext.errors import RecordFormatError
from dynamo_ext.interruptions import pass_on
from dynamo_ext.records.common import checked, plain


@dataclass(frozen=True)
class _Line:
    key: str
    seconds: float
    trace: Any
    settled: bool = False


class Database:
    """Records of one CPU, thread count and TVM version, in a folder; by default in the cache.

    Lines are appended, so that several processes may write; one that is damaged is passed over.
    Without a folder that can be written, what is measured is known to this object alone.
    """

    def __init__(self, folder: str) -> None:
        base = Path(folder).expanduser() if folder else target.cache_folder() / "database"
        self.path = base / f"{target.version()}-{target.cpu()}-{target.threads()}.jsonl"
        self._best: dict[str, _Line] = {}
        lines: list[bytes] = []
        with contextlib.suppress(OSError):
            lines = self.path.read_bytes().splitlines()
        for line in lines:
            with contextlib.suppress(RecordFormatError):
                self._keep(checked(_Line, plain(line)))

    def __len__(self) -> int:
        return len(self._best)

    def _keep(self, line: _Line) -> None:
        best = self._best.get(line.key)
        better = best is None or (line.seconds < best.seconds and not best.settled)
        if line.seconds > 0 and (better or line.settled):
            self._best[line.key] = line

    def has(self, function: Any) -> bool:
        """Whether any schedule of a PrimFunc was ever measured."""
        return key_of(function) in self._best

    def schedule(self, function: Any) -> Any:
        """The fastest schedule on record for a PrimFunc, or ``None``."""
        found = self._best.get(key_of(function))
        if found is None:
            return None
        from tvm.s_tir.schedule import Trace

        made = rules.fresh(function)
        try:
            Trace.apply_json_to_schedule(found.trace, made)
        except Exception as error:  # noqa: BLE001 - TVM refuses what a damaged record asks for
            pass_on(error)
            return None
        return made

    def add(self, function: Any, schedule: Any, seconds: float, *, settled: bool = False) -> None:
        """Record that a schedule of a PrimFunc takes so many seconds a call.

        One that is ``settled`` stays the one, whatever single measurements say of others.
        """
        line = _Line(key_of(function), seconds, trace_of(schedule), settled)
        # One write, which no other process's comes within. It ends what a full disk cut off.
        text = (
            b"\n" + json.dumps({k: v for k, v in asdict(line).items() if v is not False}).encode()
        )
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                file.write(text)
        self._keep(line)


def key_of(function: Any) -> str:
    """The same for PrimFuncs that differ in names alone."""
    import tvm_ffi

    return str(tvm_ffi.structural_hash(rules.fresh(function).mod))


def trace_of(schedule: Any) -> Any:
    """A schedule's trace as lists, numbers and text."""
    return json.loads(json.dumps(schedule.trace.as_json(), default=_plain))


def _plain(value: Any) -> Any:
    return value.value if hasattr(value, "value") else list(value)
