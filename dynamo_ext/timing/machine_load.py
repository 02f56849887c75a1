"""How busy other programs kept the machine while something was measured."""

import os
import time
from typing import Self

import psutil

NOTICED = 0.25
"""Cores: less is what any system does for itself."""

SHORTEST = 0.2
"""Seconds: the system counts in hundredths of one."""


class MachineLoad:
    """Watches the processors during a ``with`` block.

    ``cores`` is how many cores, on average, other programs kept busy; 0.0 before the block ends.
    """

    cores = 0.0

    def __enter__(self) -> Self:
        self._began, self._all, self._own = time.perf_counter(), _busy(), _own()
        return self

    def __exit__(self, *_: object) -> None:
        if (passed := time.perf_counter() - self._began) >= SHORTEST:
            others = (_busy() - self._all) - (_own() - self._own)
            self.cores = max(others / passed, 0.0)

    @property
    def sentence(self) -> str:
        """What the reader of a measurement should know; empty where there was nothing to notice."""
        if self.cores < NOTICED:
            return ""
        return (
            f"Other programs kept {self.cores:.1f} of {os.cpu_count()} cores busy meanwhile: "
            "intervals are wider for it, and compile seconds longer."
        )


def _busy() -> float:
    """Seconds that all cores together have worked since the system started."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def _own() -> float:
    """Seconds that this process, and children that have ended, have worked."""
    return float(sum(psutil.Process().cpu_times()[:4]))
