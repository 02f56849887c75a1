"""A real kernel in a process of its own, which can be interrupted, restarted and ended."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from dataclasses import dataclass
from queue import Empty
from typing import TYPE_CHECKING

from jupyter_client import KernelManager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SECONDS = 120.0
"""How long a cell, or what a test waits for, may take."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Ran:
    """What a cell showed: its streams, and its error as the kernel renders it."""

    out: str = ""
    error: str = ""


class Kernel:
    """A kernel that runs one cell at a time."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.manager = KernelManager()
        self.manager.shutdown_wait_time = 1.0
        # It warns about frozen modules there, at each start.
        self.manager.start_kernel(env=dict(environment), stderr=subprocess.DEVNULL)
        self._connect()

    def _connect(self) -> None:
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(SECONDS)

    def start(self, code: str) -> str:
        """Have a cell begin; the message that ``result`` waits for."""
        return self.client.execute(code)

    def result(self, message: str) -> Ran:
        """Wait for the end of a cell."""
        ran, end = Ran(), time.monotonic() + SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(Empty):
                got = self.client.get_iopub_msg(timeout=1)
                content = got["content"]
                if got["parent_header"].get("msg_id") != message:
                    continue
                if got["msg_type"] == "stream":
                    ran.out += content["text"]
                elif got["msg_type"] == "error":
                    ran.error = _COLOURS.sub("", "\n".join(content["traceback"]))
                elif content.get("execution_state") == "idle":
                    return ran
        message = f"The cell did not end within {SECONDS:.0f} s."
        raise TimeoutError(message)

    def run(self, code: str) -> Ran:
        return self.result(self.start(code))

    def interrupted(self, code: str, when: Callable[[], object]) -> Ran:
        """Run a cell, and interrupt it once ``when`` holds."""
        message = self.start(code)
        until(when)
        self.manager.interrupt_kernel()
        return self.result(message)

    def restart(self) -> None:
        """As a front end restarts it: an interrupt, a request to shut down, signals after that."""
        self.client.stop_channels()
        self.manager.restart_kernel()
        self._connect()

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def until(holds: Callable[[], object]) -> None:
    """Wait for what another process does."""
    end = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > end:
            message = f"It was not so within {SECONDS:.0f} s."
            raise TimeoutError(message)
        time.sleep(0.02)


@contextlib.contextmanager
def kernel(environment: Mapping[str, str]) -> Iterator[Kernel]:
    """A kernel that ends with the block."""
    made = Kernel(environment)
    try:
        yield made
    finally:
        made.close()
