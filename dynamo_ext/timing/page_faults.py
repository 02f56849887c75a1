"""What the operating system takes of calls that are timed, to hand out memory to each anew."""

import contextlib
import resource
from collections.abc import Iterator
from dataclasses import dataclass

MANY = 1_000
"""Page faults of one call, from which their time is looked at."""

NOTICED = 0.2
"""Share of the processor's time."""

KEEP_IT = (
    "To compare with eager that keeps its memory (glibc), start Jupyter or Python with "
    "MALLOC_MMAP_THRESHOLD_=1000000000 MALLOC_TRIM_THRESHOLD_=2000000000 before the command."
)


@dataclass
class PageFaults:
    """Sums over calls: seconds of the processor, those of them that the system took, and faults."""

    calls: int = 0
    faults: int = 0
    system: float = 0.0
    processor: float = 0.0

    @contextlib.contextmanager
    def of(self, calls: int) -> Iterator[None]:
        """Count what the block takes, in which there are so many calls."""
        before = resource.getrusage(resource.RUSAGE_SELF)
        yield
        after = resource.getrusage(resource.RUSAGE_SELF)
        system = after.ru_stime - before.ru_stime
        self.calls += calls
        self.faults += after.ru_minflt - before.ru_minflt
        self.system += system
        self.processor += system + after.ru_utime - before.ru_utime

    @property
    def sentence(self) -> str:
        """What the reader of a measurement of eager should know; empty where that is little."""
        if self.faults <= MANY * self.calls or self.system <= NOTICED * self.processor:
            return ""
        return (
            f"the system took {self.system / self.processor:.0%} of eager's processor time, to "
            "give it memory anew at each call"
        )
