"""What runs in the process that measures: bytes in, plain values out."""

import pickle
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from dynamo_ext.backends import crash_records
from dynamo_ext.measure.candidate_run import one_line
from dynamo_ext.measure.compare import compare_workload
from dynamo_ext.measure.remote import serialization
from dynamo_ext.measure.state.process_state import Surroundings, put_switches
from dynamo_ext.records.comparison import CandidateResult, Comparison


@dataclass(frozen=True)
class Answer:
    """A record of the baseline and one candidate, or why there is none.

    Where the code itself raised, ``trace`` is its traceback, ``raised`` the pickled exception (if
    it can be pickled) and ``missing`` the name that a ``NameError`` is about. ``stopped`` says that
    nothing is wrong, it was only not its turn.
    """

    record: Comparison | None = None
    reason: str = ""
    remedy: str = ""
    worker: str = ""
    raised: bytes = b""
    trace: str = ""
    missing: str = ""
    stopped: bool = False

    @property
    def rows(self) -> list[CandidateResult]:
        """Those of the record, with the process that measured them."""
        found = self.record.candidates if self.record is not None else ()
        return [replace(row, worker=self.worker) for row in found]


def measure(packed: bytes) -> dict[str, Any]:
    """Measure what ``serialization.pack`` packed; an ``Answer`` as plain values."""
    # It is for this that it has a process of its own: what ends it is a row.
    with crash_records.unrecorded():
        return asdict(_measured(packed))


def read(given: Mapping[str, Any]) -> Answer:
    """The answer that ``measure`` gave."""
    record = None if given["record"] is None else Comparison.from_dict(given["record"])
    return Answer(**{**given, "record": record})


def _measured(packed: bytes) -> Answer:
    outer, started = Surroundings(), False
    try:
        with serialization.unpacked(packed) as parts:
            settings = parts["settings"]
            candidates = [serialization.candidate_from(*each) for each in parts["candidates"]]
            put_switches(parts["switches"])
            for state in parts["random"]:
                state.restore()
            started = True
            return Answer(compare_workload(parts["workload"], candidates, settings))
    except (SystemExit, GeneratorExit) as error:
        return Answer(None, f"It asked its process to end ({one_line(error)}).")
    except Exception as error:  # noqa: BLE001 - handed to the process that asked
        if started:
            return _of_the_code(error)
        return Answer(
            None,
            f"The worker cannot rebuild what was sent: {one_line(error)}.",
            "Install what it needs there, or send its module by value "
            "(cloudpickle.register_pickle_by_value).",
        )
    finally:
        outer.restore()


def _of_the_code(error: Exception) -> Answer:
    missing = str(getattr(error, "name", None) or "") if isinstance(error, NameError) else ""
    trace = "".join(traceback.format_exception(error))
    answer = Answer(None, one_line(error), trace=trace, missing=missing)
    try:
        pickled = pickle.dumps(error.with_traceback(None))
        pickle.loads(pickled)  # noqa: S301 - some are pickled and cannot be read
    except Exception:  # noqa: BLE001 - its one line must do
        return answer
    return replace(answer, raised=pickled)
