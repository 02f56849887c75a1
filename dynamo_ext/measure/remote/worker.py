"""What runs in the process that measures."""

import pickle
import traceback
from dataclasses import dataclass, replace

from dynamo_ext.measure.candidate_run import one_line
from dynamo_ext.measure.compare import compare_workload
from dynamo_ext.measure.remote import serialization
from dynamo_ext.measure.state.process_state import put_switches
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
    raised: bytes = b""
    trace: str = ""
    missing: str = ""
    stopped: bool = False

    @property
    def rows(self) -> list[CandidateResult]:
        """Those of the record."""
        return list(self.record.candidates) if self.record is not None else []


def measure(packed: bytes) -> Answer:
    """Measure what ``serialization.pack`` packed."""
    started = False
    try:
        with serialization.unpacked(packed) as parts:
            put_switches(parts["switches"])
            for state in parts["random"]:
                state.restore()
            started = True
            asked = parts["workload"], parts["candidates"], parts["settings"]
            return Answer(compare_workload(*asked))
    except (SystemExit, GeneratorExit) as error:
        return Answer(None, f"It asked its process to end ({one_line(error)}).")
    except Exception as error:  # noqa: BLE001 - handed to the process that asked
        if started:
            return _of_the_code(error)
        return Answer(
            None,
            f"The other process cannot rebuild what was sent: {one_line(error)}.",
            "Send its module by value (cloudpickle.register_pickle_by_value).",
        )


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
